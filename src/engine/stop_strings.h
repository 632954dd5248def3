#pragma once
// Ends a text before any of some strings, and holds back what may be the beginning of one.
#include <string>
#include <string_view>
#include <vector>

namespace tessera::engine {

/// One stream of text. Copyable. Not thread-safe.
class StopStrings {
  public:
    /// Empty strings are left out: they would end every text before it begins.
    explicit StopStrings(std::vector<std::string> stops = {});

    /// More text; returns what is certain not to belong to a stop string, valid until the next call. After a
    /// hit nothing comes any more.
    std::string_view push(std::string_view text);
    /// The end of the text: what was held back.
    std::string_view flush();

    /// Index of the stop string that ended the text, or -1.
    int hit() const { return hit_; }
    const std::vector<std::string>& strings() const { return stops_; }

  private:
    size_t held_back() const;

    std::vector<std::string> stops_;
    std::string pending_;    // not certain yet
    size_t n_returned_ = 0;  // bytes at the front of pending_ that the last call returned
    int hit_ = -1;
};

}  // namespace tessera::engine
