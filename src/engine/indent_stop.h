#pragma once
// Ends a text before the first line that is indented too little: how code is completed no further than the
// block that it stands in.
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::engine {

/// One stream of text. Copyable. Not thread-safe.
class IndentStop {
  public:
    /// Spaces and tabs count one each. The first line, which goes on with what stands before it, and lines of
    /// nothing else do not count. 0: all lines do.
    explicit IndentStop(int64_t least = 0) : least_(least) {}

    /// More text; returns what is certain to stay, valid until the next call and while `text` is. After a hit
    /// nothing comes any more.
    std::string_view push(std::string_view text);
    /// The end of the text: what was held back.
    std::string_view flush();

    /// A line begins that does not belong to the text any more.
    bool hit() const { return hit_; }

  private:
    int64_t least_;
    bool in_indent_ = false;  // nothing but `held_` stands in this line
    std::string held_, out_;
    bool hit_ = false;
};

}  // namespace tessera::engine
