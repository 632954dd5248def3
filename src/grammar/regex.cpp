// Parses regular expressions by recursive descent: literals, classes, groups, alternatives, greedy and lazy
// repetition (which match the same texts), anchors. Look-around, back references and the like are refused
// with their position. Next: compile.cpp (patterns of whole outputs), char_dfa.cpp (patterns inside schemas).
#include "src/grammar/regex.h"

#include "common/strings.h"
#include "common/utf8.h"

namespace tessera::grammar {

namespace {

constexpr uint32_t kMaxRegexNesting = 200;
constexpr uint32_t kMaxRegexCount = 1'000'000;
constexpr size_t kMaxRegexBytes = 1u << 20;

const CharSet& digits() {
    static const CharSet set = {{'0', '9'}};
    return set;
}

const CharSet& word() {
    static const CharSet set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    return set;
}

/// White space as ECMAScript defines it, to which JSON schema refers.
const CharSet& space() {
    static const CharSet set = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    return set;
}

const CharSet& not_newline() {
    static const CharSet set = CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement();
    return set;
}

class RegexParser {
  public:
    RegexParser(std::string_view text, RegexUse use, Program& program)
        : text_(text), use_(use), program_(program) {}

    Result<ExprId> run() {
        if (text_.size() > kMaxRegexBytes)
            return fail(ErrorCode::Unsupported, "the pattern has %zu bytes; at most %zu are read",
                        text_.size(), kMaxRegexBytes);
        if (!utf8::is_valid(text_)) return fail(ErrorCode::Malformed, "the pattern is not valid UTF-8");
        TSR_TRY(const ExprId result, alternatives(0));
        if (!at_end()) return error(at_, "this ')' closes nothing");
        return result;
    }

  private:
    tl::unexpected<Error> refuse(ErrorCode code, size_t at, const std::string& message) const {
        size_t position = 1;
        for (size_t i = 0; i < at; i++) position += (static_cast<uint8_t>(text_[i]) & 0xC0) != 0x80;
        return fail(code, "position %zu: %s", position, message.c_str());
    }
    tl::unexpected<Error> error(size_t at, const std::string& message) const {
        return refuse(ErrorCode::Malformed, at, message);
    }
    tl::unexpected<Error> unsupported(size_t at, const std::string& message) const {
        return refuse(ErrorCode::Unsupported, at, message);
    }
    bool at_end() const { return at_ >= text_.size(); }
    char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    bool take(std::string_view what) {
        if (text_.substr(at_, what.size()) != what) return false;
        at_ += what.size();
        return true;
    }
    uint32_t take_char() {
        const auto c = utf8::decode(text_.substr(at_));
        at_ += c.n_bytes;
        return c.code_point;
    }
    bool ends_here() const { return at_end() || peek() == '|' || peek() == ')'; }

    Result<ExprId> alternatives(uint32_t depth);
    Result<ExprId> sequence(uint32_t depth);
    Result<ExprId> atom(uint32_t depth);
    Result<ExprId> group(uint32_t depth);
    Result<ExprId> anchor(bool first, uint32_t depth);
    Result<ExprId> repeats(ExprId item);
    Result<bool> count(uint32_t& min, uint32_t& max);
    Result<CharSet> char_class();
    Result<CharSet> escape(bool in_class);
    Result<CharSet> class_member(bool& single);
    Result<uint32_t> hex(size_t n_digits, size_t from);
    Result<uint32_t> braced_hex(size_t from);
    Result<uint32_t> unicode_escape(size_t from);

    std::string_view text_;
    RegexUse use_;
    Program& program_;
    size_t at_ = 0;
};

Result<ExprId> RegexParser::alternatives(uint32_t depth) {
    if (depth > kMaxRegexNesting)
        return unsupported(at_, strf("groups nest deeper than %u", kMaxRegexNesting));
    std::vector<ExprId> ways;
    do {
        TSR_TRY(const ExprId way, sequence(depth));
        ways.push_back(way);
    } while (take("|"));
    return program_.alt(std::move(ways));
}

Result<ExprId> RegexParser::anchor(bool first, uint32_t depth) {
    const size_t from = at_;
    const char c = peek();
    while (peek() == c) at_++;
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')
        return unsupported(at_, "an anchor cannot be repeated");
    if (use_ == RegexUse::Search) {
        const uint32_t mark = c == '^' ? kTextStart : kTextEnd;
        CharSet set;
        set.add(mark, mark);
        return program_.chars(std::move(set));
    }
    if (depth > 0 || (c == '^' ? !first : !ends_here()))
        return unsupported(from,
                           "the pattern matches the whole output, so '^' may stand only at its start and '$' "
                           "only at its end");
    return program_.empty();
}

Result<ExprId> RegexParser::sequence(uint32_t depth) {
    std::vector<ExprId> items;
    bool first = true;
    while (!ends_here()) {
        if (peek() == '^' || peek() == '$') {
            TSR_TRY(const ExprId mark, anchor(first, depth));
            items.push_back(mark);
        } else {
            TSR_TRY(const ExprId item, atom(depth));
            TSR_TRY(const ExprId repeated, repeats(item));
            items.push_back(repeated);
        }
        first = false;
    }
    if (depth == 0 && peek() == ')') return error(at_, "this ')' closes nothing");
    return program_.seq(std::move(items));
}

Result<ExprId> RegexParser::group(uint32_t depth) {
    const size_t from = at_++;
    if (peek() == '?') {
        const bool name = (peek(1) == '<' && peek(2) != '=' && peek(2) != '!') || peek(1) == '\'' ||
                          (peek(1) == 'P' && peek(2) == '<');
        if (name) {
            const char close = peek(1) == '\'' ? '\'' : '>';
            const size_t end = text_.find(close, at_ + 3);
            if (end == text_.npos) return error(from, "the group's name has no end");
            at_ = end + 1;
        } else if (!take("?:")) {
            const bool look = peek(1) == '=' || peek(1) == '!' || peek(1) == '<';
            return unsupported(from,
                               look ? "look-ahead and look-behind cannot be enforced"
                                    : "of the groups with '?' only (?:...) and named groups are supported");
        }
    } else if (peek() == '*') {
        return unsupported(from, "verbs such as (*NAME) are not supported");
    }
    TSR_TRY(const ExprId body, alternatives(depth + 1));
    if (peek() != ')') return error(from, "this '(' is never closed");
    at_++;
    return body;
}

Result<ExprId> RegexParser::atom(uint32_t depth) {
    const size_t from = at_;
    switch (peek()) {
        case '(':
            return group(depth);
        case '[': {
            TSR_TRY(CharSet set, char_class());
            return program_.chars(std::move(set));
        }
        case '.':
            at_++;
            return program_.chars(not_newline());
        case '\\': {
            TSR_TRY(CharSet set, escape(false));
            return program_.chars(std::move(set));
        }
        case '*':
        case '+':
        case '?':
            return error(from, strf("'%c' needs something before it to repeat", peek()));
        case '{': {
            uint32_t min, max;
            TSR_TRY(const bool counts, count(min, max));
            if (counts) return error(from, "a repetition needs something before it to repeat");
            at_ = from + 1;
            return program_.bytes("{");
        }
        default:
            break;
    }
    std::string bytes;
    utf8::append(bytes, take_char());
    return program_.bytes(bytes);
}

/// {m}, {m,} or {m,n}; anything else in braces is literal, as in PCRE and ECMAScript.
Result<bool> RegexParser::count(uint32_t& min, uint32_t& max) {
    const size_t from = at_++;
    const auto number = [&](uint32_t& value) -> Result<bool> {
        const size_t digits_at = at_;
        value = 0;
        for (; peek() >= '0' && peek() <= '9'; at_++) {
            value = value * 10 + static_cast<uint32_t>(peek() - '0');
            if (value > kMaxRegexCount)
                return unsupported(from, strf("a repetition counts to at most %u", kMaxRegexCount));
        }
        return at_ > digits_at;
    };
    TSR_TRY(const bool has_min, number(min));
    if (!has_min) return false;
    max = min;
    if (take(",")) {
        TSR_TRY(const bool has_max, number(max));
        if (!has_max) max = kUnbounded;
    }
    if (!take("}")) return false;
    if (max < min)
        return error(from, strf("the repetition {%u,%u} has its bounds the wrong way round", min, max));
    return true;
}

Result<ExprId> RegexParser::repeats(ExprId item) {
    const size_t from = at_;
    uint32_t min = 0, max = kUnbounded;
    if (take("*")) {
    } else if (take("+")) {
        min = 1;
    } else if (take("?")) {
        max = 1;
    } else if (peek() == '{') {
        TSR_TRY(const bool counts, count(min, max));
        if (!counts) {
            at_ = from;
            return item;
        }
    } else {
        return item;
    }
    if (peek() == '+') return unsupported(at_, "possessive repetition is not known");
    take("?");
    if (peek() == '*' || peek() == '+' || peek() == '?') return error(at_, "a repetition of a repetition");
    return program_.repeat(item, min, max);
}

Result<uint32_t> RegexParser::hex(size_t n_digits, size_t from) {
    uint32_t value = 0;
    for (size_t i = 0; i < n_digits; i++, at_++) {
        const char c = peek();
        const bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
        if (!digit && !lower && !upper) return error(from, strf("expected %zu hexadecimal digits", n_digits));
        value = value << 4 | static_cast<uint32_t>(digit ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

Result<uint32_t> RegexParser::braced_hex(size_t from) {
    const size_t end = text_.find('}', ++at_);
    if (end == text_.npos || end == at_ || end - at_ > 6)
        return error(from, "expected 1 to 6 hexadecimal digits");
    TSR_TRY(const uint32_t value, hex(end - at_, from));
    at_++;
    if (value > kMaxCodePoint) return error(from, "no such character");
    return value;
}

/// After \u: four digits, two such escapes of a surrogate pair, or digits in braces.
Result<uint32_t> RegexParser::unicode_escape(size_t from) {
    if (peek() == '{') return braced_hex(from);
    TSR_TRY(const uint32_t high, hex(4, from));
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) return error(from, "half of a surrogate pair is no character");
    TSR_TRY(const uint32_t low, hex(4, from));
    if (low < 0xDC00 || low > 0xDFFF) return error(from, "half of a surrogate pair is no character");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

Result<CharSet> RegexParser::escape(bool in_class) {
    const size_t from = at_++;
    if (at_end()) return error(from, "the pattern ends in a backslash");
    const auto single = [](uint32_t c) { return CharSet{{c, c}}; };
    const char c = peek();
    if (static_cast<uint8_t>(c) >= 0x80) return single(take_char());
    at_++;
    switch (c) {
        case 'd':
            return digits();
        case 'D':
            return digits().complement();
        case 'w':
            return word();
        case 'W':
            return word().complement();
        case 's':
            return space();
        case 'S':
            return space().complement();
        case 't':
            return single('\t');
        case 'n':
            return single('\n');
        case 'r':
            return single('\r');
        case 'f':
            return single('\f');
        case 'v':
            return single('\v');
        case 'x': {
            if (peek() == '{') {
                TSR_TRY(const uint32_t value, braced_hex(from));
                return single(value);
            }
            TSR_TRY(const uint32_t value, hex(2, from));
            return single(value);
        }
        case 'u': {
            TSR_TRY(const uint32_t value, unicode_escape(from));
            return single(value);
        }
        case '0':
            if (peek() < '0' || peek() > '9') return single(0);
            break;
        case 'b':
            if (in_class) return single('\b');
            break;
        default:
            break;
    }
    if ((c >= '0' && c <= '9') || c == 'k') return unsupported(from, "back references cannot be enforced");
    if (c == 'b' || c == 'B') return unsupported(from, "word boundaries are not known");
    if (c == 'p' || c == 'P') return unsupported(from, "Unicode properties are not known; name the ranges");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return unsupported(from, strf("the escape \\%c is not known", c));
    return single(static_cast<uint8_t>(c));
}

Result<CharSet> RegexParser::class_member(bool& single) {
    if (peek() == '\\') {
        TSR_TRY(CharSet set, escape(true));
        single = set.ranges().size() == 1 && set.ranges()[0].lo == set.ranges()[0].hi;
        return set;
    }
    if (peek() == '[' && (peek(1) == ':' || peek(1) == '.' || peek(1) == '='))
        return unsupported(at_, "POSIX classes as [:alpha:] are not known");
    const uint32_t c = take_char();
    single = true;
    return CharSet{{c, c}};
}

Result<CharSet> RegexParser::char_class() {
    const size_t from = at_++;
    const bool negated = take("^");
    CharSet set;
    while (peek() != ']') {
        if (at_end()) return error(from, "this '[' is never closed");
        const size_t member_at = at_;
        bool single = false;
        TSR_TRY(const CharSet first, class_member(single));
        if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) {
            set.add(first);
            continue;
        }
        if (!single) return error(member_at, "a class cannot be the end of a range");
        at_++;
        bool last_single = false;
        TSR_TRY(const CharSet last, class_member(last_single));
        if (!last_single) return error(member_at, "a class cannot be the end of a range");
        const uint32_t lo = first.ranges()[0].lo, hi = last.ranges()[0].lo;
        if (hi < lo) return error(member_at, "the range runs backwards");
        set.add(lo, hi);
    }
    at_++;
    if (set.empty() && !negated) return error(from, "an empty class matches nothing");
    if (negated) set = set.complement();
    if (set.empty()) return error(from, "this class matches nothing");
    return set;
}

}  // namespace

Result<ExprId> parse_regex(std::string_view pattern, RegexUse use, Program& program) {
    return RegexParser(pattern, use, program).run();
}

}  // namespace tessera::grammar
