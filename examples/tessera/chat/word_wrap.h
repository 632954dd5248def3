#pragma once
// Lines that break between words, for terminals.
#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::repl {

/// Columns that a text takes on a terminal: 2 for wide characters, 0 for combining ones. LC_CTYPE is UTF-8.
size_t text_width(std::string_view text);

/// Breaks a text that comes in pieces at spaces, before the line is wider than the terminal. A word is held
/// back until its end has come. Fenced and indented blocks of code keep their lines; between wide characters,
/// as Chinese has them, a line may break anywhere. Texts are UTF-8 without control characters but \n and \t.
/// One thread at a time.
class WordWrap {
  public:
    /// The text that can be printed after this piece; `width` in columns, 0: lines do not break.
    std::string push(std::string_view text, size_t width);
    /// The word that was held back. The next text begins a line.
    std::string finish();

  private:
    void put_word(std::string& out);
    void put_character(std::string& out, std::string_view character);
    void end_line(std::string& out);

    size_t width_ = 0;
    size_t column_ = 0;  ///< behind what was printed
    std::string spaces_, word_;
    std::string line_head_;      ///< the first bytes of the line, which tell a fence
    bool in_long_word_ = false;  ///< wider than the terminal, printed as it comes
    bool in_fence_ = false, is_indented_ = false;
};

/// A whole text of one paragraph, broken at spaces; lines but the first begin with `indent` spaces.
std::string wrapped(std::string_view text, size_t width, size_t indent = 0);

}  // namespace tessera::repl
