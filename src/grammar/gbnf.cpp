// Parses GBNF by recursive descent. A newline ends a rule unless a bracket is open or it follows "|" or
// "::=". Rules may be used before they are defined; an undefined rule is reported at its first use. Next:
// compile.cpp.
#include "src/grammar/gbnf.h"

#include <unordered_map>

#include "common/strings.h"
#include "common/utf8.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxGbnfBytes = 4u << 20;
constexpr uint32_t kMaxGbnfNesting = 200;
constexpr uint32_t kMaxGbnfCount = 1'000'000;

bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

class GbnfParser {
  public:
    explicit GbnfParser(std::string_view text) : text_(text) {}
    Result<Program> run();

  private:
    struct Place {
        size_t at = 0, line = 1, line_start = 0;
        /// Advances to byte `to`, which is not before `at`, and returns its line and column, counted in
        /// characters.
        std::string advance(std::string_view text, size_t to);
    };
    struct RuleInfo {
        RuleId id;
        size_t used_at;
        bool defined = false;
    };

    tl::unexpected<Error> error(size_t at, const char* format, ...) const
        __attribute__((format(printf, 3, 4)));
    std::string found(size_t at) const;
    bool at_end() const { return at_ >= text_.size(); }
    char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
    void skip_space(bool newlines);
    std::string_view take_name();
    RuleInfo& rule(std::string_view name, size_t at);

    Result<void> parse_rule();
    Result<ExprId> parse_alternatives(uint32_t depth);
    Result<ExprId> parse_sequence(uint32_t depth);
    Result<ExprId> parse_item(uint32_t depth);
    Result<ExprId> parse_repeats(ExprId item, bool newlines);
    Result<ExprId> parse_braces(ExprId item);
    Result<uint32_t> parse_count();
    Result<ExprId> parse_literal();
    Result<ExprId> parse_class();
    Result<ExprId> parse_token();
    Result<uint32_t> parse_char();
    Result<uint32_t> parse_escape();

    std::string_view text_;
    size_t at_ = 0;
    Place last_rule_;
    Program program_;
    std::unordered_map<std::string, RuleInfo> rules_;
};

std::string GbnfParser::Place::advance(std::string_view text, size_t to) {
    for (; at < to; at++) {
        const bool lone_cr = text[at] == '\r' && (at + 1 >= text.size() || text[at + 1] != '\n');
        if (text[at] != '\n' && !lone_cr) continue;
        line++;
        line_start = at + 1;
    }
    size_t column = 1;
    for (size_t i = line_start; i < to; i++) column += (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80;
    return strf("line %zu, column %zu", line, column);
}

tl::unexpected<Error> GbnfParser::error(size_t at, const char* format, ...) const {
    va_list args;
    va_start(args, format);
    const std::string message = vstrf(format, args);
    va_end(args);
    return fail(ErrorCode::Malformed, "%s: %s", Place().advance(text_, at).c_str(), message.c_str());
}

std::string GbnfParser::found(size_t at) const {
    if (at >= text_.size()) return "the end of the grammar";
    if (text_[at] == '\n' || text_[at] == '\r') return "the end of the line";
    return "'" + printable(text_.substr(at, utf8::decode(text_.substr(at)).n_bytes)) + "'";
}

void GbnfParser::skip_space(bool newlines) {
    while (!at_end()) {
        const char c = peek();
        if (c == '#') {
            while (!at_end() && peek() != '\n' && peek() != '\r') at_++;
        } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
            at_++;
        } else {
            break;
        }
    }
}

std::string_view GbnfParser::take_name() {
    const size_t from = at_;
    while (is_name_char(peek())) at_++;
    return text_.substr(from, at_ - from);
}

GbnfParser::RuleInfo& GbnfParser::rule(std::string_view name, size_t at) {
    const auto known = rules_.find(std::string(name));
    if (known != rules_.end()) return known->second;
    const RuleId id = program_.add_rule(std::string(name));
    return rules_.emplace(std::string(name), RuleInfo{id, at}).first->second;
}

Result<Program> GbnfParser::run() {
    if (text_.size() > kMaxGbnfBytes)
        return fail(ErrorCode::Unsupported, "the grammar has %zu bytes; at most %zu are read", text_.size(),
                    kMaxGbnfBytes);
    skip_space(true);
    while (!at_end()) {
        TSR_TRY_VOID(parse_rule());
        skip_space(true);
    }
    const auto root = rules_.find("root");
    if (root == rules_.end())
        return fail(ErrorCode::Malformed,
                    "line 1, column 1: expected a rule 'root', where the output begins");
    const RuleInfo* undefined = nullptr;
    std::string_view name;
    for (const auto& [key, info] : rules_) {
        if (info.defined || (undefined && undefined->used_at < info.used_at)) continue;
        undefined = &info;
        name = key;
    }
    if (undefined)
        return error(undefined->used_at, "rule '%s' is used, but not defined", printable(name).c_str());
    program_.root = root->second.id;
    return std::move(program_);
}

Result<void> GbnfParser::parse_rule() {
    const size_t name_at = at_;
    const std::string_view name = take_name();
    if (name.empty())
        return error(at_, "expected the name of a rule (letters, digits, '-'), found %s", found(at_).c_str());
    skip_space(false);
    if (!starts("::="))
        return error(at_, "expected '::=' after '%s', found %s", std::string(name).c_str(),
                     found(at_).c_str());
    at_ += 3;
    skip_space(true);
    RuleInfo& info = rule(name, name_at);
    if (info.defined) return error(name_at, "rule '%s' is defined a second time", std::string(name).c_str());
    info.defined = true;
    const RuleId id = info.id;
    program_.set_place(id, last_rule_.advance(text_, name_at));
    TSR_TRY(const ExprId body, parse_alternatives(0));
    program_.set_body(id, body);
    if (!at_end() && peek() != '\n' && peek() != '\r')
        return error(at_, "expected the end of the line, found %s", found(at_).c_str());
    return {};
}

Result<ExprId> GbnfParser::parse_alternatives(uint32_t depth) {
    if (depth > kMaxGbnfNesting) return error(at_, "brackets nest deeper than %u", kMaxGbnfNesting);
    std::vector<ExprId> ways;
    while (true) {
        TSR_TRY(const ExprId way, parse_sequence(depth));
        ways.push_back(way);
        if (peek() != '|') break;
        at_++;
        skip_space(true);
    }
    return program_.alt(std::move(ways));
}

Result<ExprId> GbnfParser::parse_sequence(uint32_t depth) {
    std::vector<ExprId> items;
    while (!at_end()) {
        const char c = peek();
        if (c == '|' || c == ')' || c == '\n' || c == '\r') break;
        TSR_TRY(const ExprId item, parse_item(depth));
        skip_space(depth > 0);
        TSR_TRY(const ExprId repeated, parse_repeats(item, depth > 0));
        items.push_back(repeated);
        skip_space(depth > 0);
    }
    return program_.seq(std::move(items));
}

Result<ExprId> GbnfParser::parse_item(uint32_t depth) {
    const size_t start = at_;
    const char c = peek();
    if (c == '"') return parse_literal();
    if (c == '[') return parse_class();
    if (c == '<' || (c == '!' && peek(1) == '<')) return parse_token();
    if (c == '.') {
        at_++;
        return program_.chars(CharSet::any());
    }
    if (c == '(') {
        at_++;
        skip_space(true);
        TSR_TRY(const ExprId group, parse_alternatives(depth + 1));
        if (peek() != ')')
            return error(at_, "expected ')' for the '(' in %s, found %s",
                         Place().advance(text_, start).c_str(), found(at_).c_str());
        at_++;
        return group;
    }
    if (is_name_char(c)) {
        const std::string_view name = take_name();
        return program_.rule(rule(name, start).id);
    }
    if (c == '*' || c == '+' || c == '?' || c == '{')
        return error(at_, "'%c' needs something before it to repeat", c);
    return error(at_, "expected a literal, a class, a rule or a group, found %s", found(at_).c_str());
}

Result<ExprId> GbnfParser::parse_repeats(ExprId item, bool newlines) {
    while (true) {
        switch (peek()) {
            case '*':
                item = program_.repeat(item, 0, kUnbounded);
                break;
            case '+':
                item = program_.repeat(item, 1, kUnbounded);
                break;
            case '?':
                item = program_.optional(item);
                break;
            case '{': {
                TSR_TRY(item, parse_braces(item));
                skip_space(newlines);
                continue;
            }
            default:
                return item;
        }
        at_++;
        skip_space(newlines);
    }
}

Result<uint32_t> GbnfParser::parse_count() {
    if (!is_digit(peek())) return error(at_, "expected a number, found %s", found(at_).c_str());
    const size_t from = at_;
    uint32_t count = 0;
    while (is_digit(peek())) {
        count = count * 10 + static_cast<uint32_t>(text_[at_++] - '0');
        if (count > kMaxGbnfCount) return error(from, "a repetition counts to at most %u", kMaxGbnfCount);
    }
    skip_space(false);
    return count;
}

Result<ExprId> GbnfParser::parse_braces(ExprId item) {
    const size_t from = at_++;
    skip_space(false);
    TSR_TRY(const uint32_t min, parse_count());
    uint32_t max = min;
    if (peek() == ',') {
        at_++;
        skip_space(false);
        max = kUnbounded;
        if (peek() != '}') {
            TSR_TRY(max, parse_count());
        }
    }
    if (peek() != '}') return error(at_, "expected '}', found %s", found(at_).c_str());
    if (max < min) return error(from, "the repetition {%u,%u} has its bounds the wrong way round", min, max);
    at_++;
    return program_.repeat(item, min, max);
}

Result<uint32_t> GbnfParser::parse_escape() {
    const size_t from = at_++;
    const char c = peek();
    size_t n_digits = 0;
    switch (c) {
        case 'x':
            n_digits = 2;
            break;
        case 'u':
            n_digits = 4;
            break;
        case 'U':
            n_digits = 8;
            break;
        case 't':
            at_++;
            return uint32_t{'\t'};
        case 'r':
            at_++;
            return uint32_t{'\r'};
        case 'n':
            at_++;
            return uint32_t{'\n'};
        case '\\':
        case '"':
        case '[':
        case ']':
            at_++;
            return static_cast<uint32_t>(c);
        default:
            return error(
                from,
                "unknown escape: expected \\x, \\u, \\U, \\t, \\r, \\n, \\\\, \\\", \\[ or \\], found %s",
                found(at_).c_str());
    }
    at_++;
    uint32_t value = 0;
    for (size_t i = 0; i < n_digits; i++, at_++) {
        const int digit = hex_value(peek());
        if (digit < 0)
            return error(at_, "\\%c needs %zu hexadecimal digits, found %s", c, n_digits, found(at_).c_str());
        value = value << 4 | static_cast<uint32_t>(digit);
    }
    if (value > kMaxCodePoint || (value >= 0xD800 && value <= 0xDFFF))
        return error(from, "U+%04X is no character", value);
    return value;
}

Result<uint32_t> GbnfParser::parse_char() {
    if (peek() == '\\') return parse_escape();
    const auto c = utf8::decode(text_.substr(at_));
    if (!c.valid) return error(at_, "the grammar is not valid UTF-8");
    at_ += c.n_bytes;
    return c.code_point;
}

Result<ExprId> GbnfParser::parse_literal() {
    const size_t from = at_++;
    std::string bytes;
    while (peek() != '"' || at_end()) {
        if (at_end() || peek() == '\n') return error(from, "this literal has no closing '\"'");
        TSR_TRY(const uint32_t c, parse_char());
        utf8::append(bytes, c);
    }
    at_++;
    return program_.bytes(bytes);
}

Result<ExprId> GbnfParser::parse_class() {
    const size_t from = at_++;
    const bool negated = peek() == '^';
    at_ += negated;
    CharSet set;
    while (peek() != ']' || at_end()) {
        if (at_end()) return error(from, "this class has no closing ']'");
        const size_t range_at = at_;
        TSR_TRY(const uint32_t lo, parse_char());
        uint32_t hi = lo;
        if (peek() == '-' && at_ + 1 < text_.size() && peek(1) != ']') {
            at_++;
            TSR_TRY(hi, parse_char());
        }
        if (hi < lo) return error(range_at, "the range runs backwards");
        set.add(lo, hi);
    }
    at_++;
    if (set.empty()) return error(from, "an empty class matches nothing");
    if (negated) set = set.complement();
    if (set.empty()) return error(from, "this class matches nothing");
    return program_.chars(std::move(set));
}

Result<ExprId> GbnfParser::parse_token() {
    const size_t from = at_;
    TokenRef ref;
    ref.negated = peek() == '!';
    at_ += ref.negated ? 2 : 1;
    if (peek() == '[') {
        at_++;
        const size_t digits_at = at_;
        int64_t id = 0;
        while (is_digit(peek()) && id < (1 << 30)) id = id * 10 + (text_[at_++] - '0');
        if (at_ == digits_at || !starts("]>") || id >= (1 << 30))
            return error(from, "expected a token as <[id]> with a number as id");
        at_ += 2;
        ref.id = static_cast<int32_t>(id);
        return program_.token(std::move(ref));
    }
    const size_t end = text_.find_first_of(">\n\r", at_);
    if (end == text_.npos || text_[end] != '>' || end == at_)
        return error(from, "expected a token as <text> or <[id]>");
    ref.text =
        std::string(text_.substr(from + (ref.negated ? 1 : 0), end + 1 - from - (ref.negated ? 1 : 0)));
    at_ = end + 1;
    return program_.token(std::move(ref));
}

}  // namespace

Result<Program> parse_gbnf(std::string_view text) { return GbnfParser(text).run(); }

}  // namespace tessera::grammar
