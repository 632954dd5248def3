#pragma once
// Ends a text before the first stop string, and holds back text that may be the beginning of one.
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

/// One stream of text. Copyable. Not thread-safe.
class StopStrings {
  public:
    /// Empty strings are ignored: they would end every text before it begins.
    explicit StopStrings(std::vector<std::string> stops = {});

    /// Appends text and returns the part that cannot belong to a stop string, valid until the next call.
    /// Returns nothing after a hit.
    std::string_view push(std::string_view text);
    /// Ends the text; returns the part that was held back.
    std::string_view flush();

    /// Index of the stop string that ended the text, or -1.
    int hit() const { return hit_; }

  private:
    size_t held_back() const;

    std::vector<std::string> stops_;
    std::string pending_;    // may belong to a stop string
    size_t n_returned_ = 0;  // bytes at the front of pending_ that the last call returned
    int hit_ = -1;
};

}  // namespace tessera::text
