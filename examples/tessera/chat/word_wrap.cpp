// The state is that of one line of the answer: words that were printed, the spaces behind them, and the word
// that is still growing.
#include "examples/tessera/chat/word_wrap.h"

#include <algorithm>
#include <cwchar>

#include "common/strings.h"
#include "common/utf8.h"

namespace tessera::repl {

namespace {

constexpr size_t kTab = 8, kCodeIndent = 4;

size_t width_of(uint32_t code_point) {
    const int n = ::wcwidth(static_cast<wchar_t>(code_point));
    return n < 0 ? 0 : static_cast<size_t>(n);
}

/// The column behind spaces and tabs.
size_t behind(std::string_view spaces, size_t column) {
    for (const char c : spaces) column = c == '\t' ? (column / kTab + 1) * kTab : column + 1;
    return column;
}

}  // namespace

size_t text_width(std::string_view text) {
    size_t n = 0;
    while (!text.empty()) {
        const utf8::Decoded next = utf8::decode(text);
        n += width_of(next.code_point);
        text.remove_prefix(next.n_bytes);
    }
    return n;
}

void WordWrap::put_word(std::string& out) {
    if (word_.empty()) return;
    if (column_ == 0 && (behind(spaces_, 0) >= kCodeIndent)) is_indented_ = true;
    const size_t n = text_width(word_), end = behind(spaces_, column_) + n;
    if (column_ > 0 && end > width_ && !is_indented_) {
        out += '\n';
        column_ = n;
    } else {
        out += spaces_;
        column_ = end;
    }
    out += word_;
    spaces_.clear();
    word_.clear();
}

void WordWrap::end_line(std::string& out) {
    put_word(out);
    out += spaces_ + '\n';
    const std::string_view head = trim(line_head_);
    if (head.starts_with("```") || head.starts_with("~~~")) in_fence_ = !in_fence_;
    spaces_.clear();
    line_head_.clear();
    column_ = 0;
    in_long_word_ = is_indented_ = false;
}

void WordWrap::put_character(std::string& out, std::string_view character) {
    constexpr size_t kHead = 8;
    if (line_head_.size() < kHead) line_head_ += character;
    if (in_fence_ || is_indented_) {
        out += spaces_ + word_ + std::string(character);
        spaces_.clear();
        word_.clear();
        return;
    }
    if (character == " " || character == "\t") {
        put_word(out);
        in_long_word_ = false;
        spaces_ += character;
        return;
    }
    const size_t n = text_width(character);
    if (in_long_word_) {
        out += character;
        column_ = (column_ + n - 1) % width_ + 1;
        return;
    }
    if (n == 2) put_word(out);  // a line may break in front of a wide character, and behind it
    word_ += character;
    if (n == 2) put_word(out);
    if (text_width(word_) < width_) return;
    put_word(out);
    in_long_word_ = true;
}

std::string WordWrap::push(std::string_view text, size_t width) {
    if (width == 0) return finish() + std::string(text);
    width_ = width;
    std::string out;
    while (!text.empty()) {
        const size_t n = utf8::decode(text).n_bytes;
        if (text.front() == '\n')
            end_line(out);
        else
            put_character(out, text.substr(0, n));
        text.remove_prefix(n);
    }
    return out;
}

std::string WordWrap::finish() {
    std::string out;
    put_word(out);
    out += spaces_;
    *this = {};
    return out;
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
    std::string out;
    size_t column = 0;
    for (const std::string_view word : split(text, ' ')) {
        const size_t n = text_width(word);
        if (column > 0 && width > 0 && column + 1 + n > width) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        } else if (column > 0) {
            out += ' ';
            column++;
        }
        out += word;
        column += n;
    }
    return out;
}

}  // namespace tessera::repl
