// The lexer: finds tags in text, applies the white space rules around them, and splits their insides into
// tokens. Works on offsets in the normalized source, from which template.cpp computes line and column of
// errors.
#include "src/text/jinja/lexer.h"

#include <array>

#include "common/strings.h"
#include "common/utf8.h"

namespace tessera::jinja {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_binary(char c) { return c == '0' || c == '1'; }
// All characters beyond ASCII are allowed in names.
bool starts_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}
bool in_name(char c) { return starts_name(c) || is_digit(c); }

bool is_space_code(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

// Longer operators come first.
constexpr std::array<std::string_view, 25> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         "<",  ">",  "=",  ".",  ":",  "|",  ","};

class Lexer {
  public:
    explicit Lexer(std::string_view source) : source_(source) {}

    tl::expected<std::vector<Token>, SyntaxError> run() {
        while (at_ < source_.size()) {
            const size_t tag = next_tag();
            if (tag == std::string_view::npos) {
                add(TokenKind::Data, at_, source_.substr(at_));
                at_ = source_.size();
                break;
            }
            const char kind = source_[tag + 1];
            if (!text_before(tag, kind != '{')) break;
            if (kind == '#' ? !comment(tag) : kind == '%' && is_raw(tag) ? !raw(tag) : !this->tag(tag, kind))
                break;
        }
        if (failed_) return tl::unexpected<SyntaxError>(error_);
        add(TokenKind::End, source_.size(), {});
        return std::move(tokens_);
    }

  private:
    bool fail(size_t offset, std::string message) {
        error_ = {static_cast<uint32_t>(offset), std::move(message)};
        failed_ = true;
        return false;
    }

    void add(TokenKind kind, size_t offset, std::string_view text) {
        if (kind == TokenKind::Data && text.empty()) return;
        tokens_.push_back({kind, static_cast<uint32_t>(offset), std::string(text)});
    }

    size_t next_tag() const {
        for (size_t at = at_;; at++) {
            at = source_.find('{', at);
            if (at == std::string_view::npos || at + 1 >= source_.size()) return std::string_view::npos;
            const char next = source_[at + 1];
            if (next == '{' || next == '%' || next == '#') return at;
        }
    }

    char sign_at(size_t at) const {
        const char c = at < source_.size() ? source_[at] : '\0';
        return c == '-' || c == '+' ? c : '\0';
    }

    // Adds the data up to a tag without the white space that the tag strips; moves at_ behind the bracket and
    // its sign.
    bool text_before(size_t tag, bool strips_line) {
        std::string_view text = source_.substr(at_, tag - at_);
        const char sign = sign_at(tag + 2);
        if (sign == '-') {
            while (const size_t n = space_before(text, text.size())) text.remove_suffix(n);
        } else if (sign != '+' && strips_line) {
            text = without_indent(text);
        }
        add(TokenKind::Data, at_, text);
        at_ = tag + 2 + (sign != '\0');
        return true;
    }

    std::string_view without_indent(std::string_view text) const {
        const size_t newline = text.rfind('\n');
        const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
        if (line == 0 && !line_starts_) return text;
        size_t end = text.size();
        while (end > line) {
            const size_t n = space_before(text, end);
            if (n == 0) return text;
            end -= n;
        }
        return text.substr(0, line);
    }

    // After a closing bracket: `-` skips all white space; a bracket of a block or comment skips one line
    // feed.
    void after_tag(char sign, bool trims) {
        if (sign == '-') {
            while (const size_t n = space_at(source_, at_)) at_ += n;
        } else if (sign != '+' && trims && at_ < source_.size() && source_[at_] == '\n') {
            at_++;
        }
        line_starts_ = at_ > 0 && source_[at_ - 1] == '\n';
    }

    bool comment(size_t tag) {
        const size_t end = source_.find("#}", at_);
        if (end == std::string_view::npos)
            return fail(tag, "the comment that begins here has no end: expected '#}'");
        const char sign = end > at_ ? sign_at(end - 1) : '\0';
        at_ = end + 2;
        after_tag(sign, true);
        return true;
    }

    size_t skip_spaces(size_t at) const {
        while (const size_t n = space_at(source_, at)) at += n;
        return at;
    }

    // Whether `word` and a closing bracket follow; sets `end` to the bracket's sign.
    bool at_word(size_t at, std::string_view word, size_t& end) const {
        at = skip_spaces(at);
        if (source_.substr(at, word.size()) != word) return false;
        at = skip_spaces(at + word.size());
        end = at;
        return source_.substr(at, 2) == "%}" || (sign_at(at) && source_.substr(at + 1, 2) == "%}");
    }

    bool is_raw(size_t tag) const {
        size_t end = 0;
        return at_word(tag + 2 + (sign_at(tag + 2) != '\0'), "raw", end);
    }

    bool raw(size_t tag) {
        size_t end = 0;
        at_word(at_, "raw", end);
        const char sign = sign_at(end);
        at_ = end + (sign != '\0') + 2;
        after_tag(sign, false);
        for (size_t block = at_;; block += 2) {
            block = source_.find("{%", block);
            if (block == std::string_view::npos)
                return fail(tag, "the raw block that begins here has no end: expected 'endraw'");
            if (!at_word(block + 2 + (sign_at(block + 2) != '\0'), "endraw", end)) continue;
            text_before(block, true);
            const char last = sign_at(end);
            at_ = end + (last != '\0') + 2;
            after_tag(last, true);
            return true;
        }
    }

    bool tag(size_t begin, char kind) {
        const bool is_block = kind == '%';
        const std::string_view close = is_block ? "%}" : "}}";
        add(is_block ? TokenKind::BlockBegin : TokenKind::OutputBegin, begin, source_.substr(begin, 2));
        brackets_.clear();
        for (;;) {
            at_ = skip_spaces(at_);
            if (at_ >= source_.size()) return true;  // the parser reports what is missing
            const char sign = sign_at(at_);
            const bool signed_end = sign && (sign == '-' || is_block) && source_.substr(at_ + 1, 2) == close;
            if (brackets_.empty() && (signed_end || source_.substr(at_, 2) == close)) {
                add(is_block ? TokenKind::BlockEnd : TokenKind::OutputEnd, at_, close);
                at_ += 2 + signed_end;
                after_tag(signed_end ? sign : '\0', is_block);
                return true;
            }
            if (!inside()) return false;
        }
    }

    bool inside() {
        const char c = source_[at_];
        if (starts_name(c)) {
            size_t end = at_;
            while (end < source_.size() && in_name(source_[end])) end++;
            add(TokenKind::Name, at_, source_.substr(at_, end - at_));
            at_ = end;
            return true;
        }
        if (is_digit(c)) return number();
        if (c == '\'' || c == '"') return string(c);
        for (const std::string_view op : kOperators) {
            if (source_.substr(at_, op.size()) != op) continue;
            if (!balance(op[0])) return false;
            add(TokenKind::Op, at_, op);
            at_ += op.size();
            return true;
        }
        return fail(at_, strf("unexpected character '%s'", printable(source_.substr(at_, 1)).c_str()));
    }

    bool balance(char c) {
        if (c == '(') brackets_ += ')';
        if (c == '[') brackets_ += ']';
        if (c == '{') brackets_ += '}';
        if (c != ')' && c != ']' && c != '}') return true;
        if (brackets_.empty()) return fail(at_, strf("unexpected '%c'", c));
        if (brackets_.back() != c)
            return fail(at_, strf("unexpected '%c', expected '%c'", c, brackets_.back()));
        brackets_.pop_back();
        return true;
    }

    // Appends digits of a base without the single underscores between them; returns the end, or `at` if there
    // are none.
    size_t digits(size_t at, bool (*is)(char), std::string& out) const {
        while (at < source_.size()) {
            const bool gap = source_[at] == '_' && at + 1 < source_.size() && is(source_[at + 1]);
            if (!gap && !is(source_[at])) break;
            if (gap) at++;
            out += source_[at++];
        }
        return at;
    }

    bool number() {
        const auto peek = [&](size_t at) { return at < source_.size() ? source_[at] : '\0'; };
        std::string text;
        if (source_[at_] == '0') {
            const char base = static_cast<char>(peek(at_ + 1) | 0x20);
            bool (*const is)(char) = base == 'x'   ? is_hex
                                     : base == 'o' ? is_octal
                                     : base == 'b' ? is_binary
                                                   : nullptr;
            if (is) {
                text = {'0', base};
                const size_t end = digits(at_ + 2, is, text);
                if (text.size() > 2) return take(TokenKind::Int, end, text);
                text.clear();
            }
        }
        size_t end = digits(at_, is_digit, text);
        bool is_float = false;
        // `x.0.1` is two subscripts, not a fraction.
        const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
        if (!after_dot && peek(end) == '.' && is_digit(peek(end + 1))) {
            text += '.';
            end = digits(end + 1, is_digit, text);
            is_float = true;
        }
        if (!after_dot && (peek(end) == 'e' || peek(end) == 'E')) {
            const size_t sign = peek(end + 1) == '+' || peek(end + 1) == '-';
            if (is_digit(peek(end + 1 + sign))) {
                text += source_.substr(end, 1 + sign);
                end = digits(end + 1 + sign, is_digit, text);
                is_float = true;
            }
        }
        return take(is_float ? TokenKind::Float : TokenKind::Int, end, text);
    }

    bool take(TokenKind kind, size_t end, std::string_view text) {
        add(kind, at_, text);
        at_ = end;
        return true;
    }

    bool string(char quote) {
        std::string text;
        for (size_t at = at_ + 1; at < source_.size();) {
            const char c = source_[at];
            if (c == quote) return take(TokenKind::Text, at + 1, text);
            if (c != '\\') {
                text += c;
                at++;
            } else if (at + 1 < source_.size()) {
                at = escape(at + 1, text);
            } else {
                break;
            }
        }
        return fail(at_, "the string that begins here has no end");
    }

    // The value of n hexadecimal digits at `at`, or -1.
    int64_t hex_code(size_t at, size_t n) const {
        if (at + n > source_.size()) return -1;
        int64_t code = 0;
        for (const char c : source_.substr(at, n)) {
            if (!is_hex(c)) return -1;
            code = code * 16 + (is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        return code;
    }

    // Appends one escape, with `at` after its backslash; returns the offset after it. Unknown ones are
    // copied, as in Python.
    size_t escape(size_t at, std::string& out) const {
        static constexpr std::string_view kNames = "abfnrtv\\'\"", kCodes = "\a\b\f\n\r\t\v\\'\"";
        const char c = source_[at];
        if (c == '\n') return at + 1;
        if (const size_t i = kNames.find(c); i != std::string_view::npos) {
            out += kCodes[i];
            return at + 1;
        }
        if (c >= '0' && c <= '7') {
            uint32_t code = 0;
            size_t end = at;
            while (end < source_.size() && end < at + 3 && source_[end] >= '0' && source_[end] <= '7')
                code = code * 8 + static_cast<uint32_t>(source_[end++] - '0');
            utf8::append(out, code);
            return end;
        }
        const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        int64_t code = n ? hex_code(at + 1, n) : -1;
        if (code < 0) {
            out += '\\';
            return at;
        }
        size_t end = at + 1 + n;
        if (code >= 0xd800 && code < 0xdc00 && source_.substr(end, 2) == "\\u") {
            const int64_t low = hex_code(end + 2, 4);
            if (low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                end += 6;
            }
        }
        const bool valid = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        utf8::append(out, valid ? static_cast<uint32_t>(code) : 0xfffd);
        return end;
    }

    std::string_view source_;
    size_t at_ = 0;
    bool line_starts_ = true;
    std::string brackets_;  // the expected closing brackets
    std::vector<Token> tokens_;
    SyntaxError error_;
    bool failed_ = false;
};

}  // namespace

size_t space_at(std::string_view text, size_t at) {
    if (at >= text.size()) return 0;
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) return is_space_code(first);
    const utf8::Decoded c = utf8::decode(text.substr(at));
    return c.valid && is_space_code(c.code_point) ? c.n_bytes : 0;
}

size_t space_before(std::string_view text, size_t end) {
    if (end == 0) return 0;
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) begin--;
    const size_t n = space_at(text, begin);
    return begin + n == end ? n : 0;
}

std::string normalize_source(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); i++) {
        if (source[i] != '\r') {
            out += source[i];
        } else {
            out += '\n';
            i += i + 1 < source.size() && source[i + 1] == '\n';
        }
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

tl::expected<std::vector<Token>, SyntaxError> lex(std::string_view source) { return Lexer(source).run(); }

}  // namespace tessera::jinja
