#pragma once
// The vocabulary as a trie of bytes, so that a mask visits shared prefixes of tokens only once.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "src/text/tokenizer.h"

namespace tessera::grammar {

/// How a grammar treats a token.
struct TokenText {
    enum class Kind : uint8_t {
        Text,     ///< matches its bytes
        Special,  ///< has no text; allowed only by a token reference or in the free text before a trigger
        End,      ///< ends the generation: allowed if and only if the grammar accepts
        Never,    ///< never allowed: unknown or unused
    };
    std::string bytes;  ///< for Special the spelling
    Kind kind = Kind::Text;
};

/// Immutable; every member may be used from many threads.
class TokenTrie {
  public:
    /// One entry per token in the order of the ids. Errors: more than 2^24 tokens, or a token above 64 KiB.
    static Result<std::shared_ptr<const TokenTrie>> create(std::span<const TokenText> tokens);
    /// The tokens of a vocabulary; text tokens have the bytes of Tokenizer::token_bytes().
    static Result<std::shared_ptr<const TokenTrie>> create(const text::Tokenizer& tokenizer);

    /// Nodes in depth-first order; node 0 is the root. The nodes below `n` are n + 1 .. end(n) - 1.
    struct Node {
        uint32_t end;
        uint32_t
            first_token;  ///< index into tokens(); the range of this node ends where the next node's begins
        uint16_t depth;   ///< bytes from the root
        uint8_t byte;
    };
    std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
    /// Ids of the tokens that end at a node; several if the vocabulary has duplicates.
    std::span<const int32_t> tokens_at(uint32_t node) const {
        return std::span(node_tokens_)
            .subspan(nodes_[node].first_token, nodes_[node + 1].first_token - nodes_[node].first_token);
    }

    int32_t n_tokens() const { return static_cast<int32_t>(kinds_.size()); }
    bool contains(int32_t id) const { return id >= 0 && id < n_tokens(); }
    TokenText::Kind kind(int32_t id) const { return kinds_[static_cast<size_t>(id)]; }
    /// The bytes, or the spelling of a special token. Ids must be contained.
    std::string_view bytes(int32_t id) const;
    std::span<const int32_t> special() const { return special_; }
    std::span<const int32_t> ends() const { return ends_; }
    /// Bytes of the longest token.
    uint32_t max_bytes() const { return max_bytes_; }
    /// 64-bit words of a mask.
    size_t mask_words() const { return (kinds_.size() + 63) / 64; }

  private:
    TokenTrie() = default;
    void build(std::span<const int32_t> sorted);

    std::vector<Node> nodes_;  // plus one past the end, for tokens_at
    std::vector<int32_t> node_tokens_;
    std::vector<TokenText::Kind> kinds_;
    std::string bytes_;
    std::vector<uint32_t> offsets_;
    std::vector<int32_t> special_, ends_;
    uint32_t max_bytes_ = 0;
};

}  // namespace tessera::grammar
