#pragma once
// Ends a text before the first line with too little indentation, so that a code completion stops at the end
// of its block.
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::text {

/// One stream of text. Copyable. Not thread-safe.
class IndentStop {
  public:
    /// Least number of spaces and tabs in front of a line; 0: no limit. The first line, which continues the
    /// prompt, and blank lines are not checked.
    explicit IndentStop(int64_t least = 0) : least_(least) {}

    /// Appends text and returns the part that is final, valid until the next call and as long as `text`.
    /// Returns nothing after a hit.
    std::string_view push(std::string_view text);
    /// Ends the text; returns the part that was held back.
    std::string_view flush();

    /// Whether a line with too little indentation has begun.
    bool hit() const { return hit_; }

  private:
    int64_t least_;
    bool in_indent_ = false;  // the current line consists of `held_` only
    std::string held_, out_;
    bool hit_ = false;
};

}  // namespace tessera::text
