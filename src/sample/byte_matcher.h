#pragma once
// Finds any of several strings in a stream of bytes, each byte looked at once (Aho and Corasick, "Efficient
// string matching", 1975). Private to this folder.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::sample {

/// Copying copies the place in the stream. After construction nothing allocates.
class ByteMatcher {
  public:
    /// None of the strings is empty.
    explicit ByteMatcher(std::span<const std::string> strings);

    /// Takes the next byte; returns the length of the shortest string that ends with it, or 0.
    size_t push(uint8_t byte);
    /// Whether one of the strings ends within these bytes, wherever it began; consumes all of them.
    bool push_all(std::string_view bytes);
    /// Length of the stream's longest suffix that is a prefix of one of the strings.
    size_t n_pending() const { return nodes_[state_].depth; }
    void reset() { state_ = 0; }

  private:
    struct Edge {
        uint8_t byte;
        uint32_t node;
    };
    struct Node {
        uint32_t depth = 0;
        uint32_t fail = 0;          // the longest proper suffix that is a prefix of a string
        uint32_t match = 0;         // length of the shortest string that ends here, or 0
        uint32_t first = 0, n = 0;  // its edges
    };
    const Edge* edge(uint32_t node, uint8_t byte) const;
    uint32_t next(uint32_t node, uint8_t byte) const;

    std::vector<Node> nodes_;  // 0 is the empty string
    std::vector<Edge> edges_;  // edges of a node are adjacent, sorted by byte
    uint32_t state_ = 0;
};

}  // namespace tessera::sample
