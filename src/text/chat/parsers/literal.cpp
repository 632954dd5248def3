// One parser for literals of Python, JSON and gemma, since models mix them.
#include <algorithm>

#include "common/strings.h"
#include "common/utf8.h"
#include "src/text/chat/parsers/tool_call_bodies.h"
#include "src/text/jinja/numbers.h"

namespace tessera::chat {

namespace {

using jinja::Value;

constexpr size_t kMaxDepth = 64;
constexpr std::string_view kGemmaQuote = "<|\"|>";

class LiteralReader {
  public:
    explicit LiteralReader(std::string_view text) : text_(text) {}

    std::optional<Value> value(size_t depth) {
        skip_spaces();
        if (text_.empty() || depth > kMaxDepth) return std::nullopt;
        const char c = text_[0];
        if (c == '{') return dict(depth);
        if (c == '[') return list(depth, ']');
        if (c == '(') return list(depth, ')');
        if (std::optional<std::string> string = quoted()) return Value::text(std::move(*string));
        return word();
    }

    std::string_view rest() const { return text_; }

  private:
    void skip_spaces() {
        while (!text_.empty() && (text_[0] == ' ' || (text_[0] >= '\t' && text_[0] <= '\r')))
            text_.remove_prefix(1);
    }

    bool skip(char c) {
        skip_spaces();
        if (text_.empty() || text_[0] != c) return false;
        text_.remove_prefix(1);
        return true;
    }

    std::optional<Value> dict(size_t depth) {
        text_.remove_prefix(1);
        Value::Pairs pairs;
        while (!skip('}')) {
            if (!pairs.empty() && !skip(',')) return std::nullopt;
            if (!pairs.empty() && skip('}')) break;
            skip_spaces();
            std::optional<std::string> key = quoted();
            if (!key) key = bare_key();
            if (!key || !skip(':')) return std::nullopt;
            std::optional<Value> member = value(depth + 1);
            if (!member) return std::nullopt;
            pairs.emplace_back(Value::text(std::move(*key)), std::move(*member));
        }
        return Value::dict(std::move(pairs));
    }

    std::optional<Value> list(size_t depth, char close) {
        text_.remove_prefix(1);
        Value::Items items;
        while (!skip(close)) {
            if (!items.empty() && !skip(',')) return std::nullopt;
            if (!items.empty() && skip(close)) break;
            std::optional<Value> item = value(depth + 1);
            if (!item) return std::nullopt;
            items.push_back(std::move(*item));
        }
        return Value::list(std::move(items));
    }

    std::optional<std::string> quoted() {
        if (text_.starts_with(kGemmaQuote)) {
            const size_t end = text_.find(kGemmaQuote, kGemmaQuote.size());
            if (end == std::string_view::npos) return std::nullopt;
            std::string out(text_.substr(kGemmaQuote.size(), end - kGemmaQuote.size()));
            text_.remove_prefix(end + kGemmaQuote.size());
            return out;
        }
        if (text_.empty() || (text_[0] != '"' && text_[0] != '\'')) return std::nullopt;
        const char quote = text_[0];
        std::string out;
        for (size_t at = 1; at < text_.size();) {
            if (text_[at] == quote) {
                text_.remove_prefix(at + 1);
                return out;
            }
            if (text_[at] != '\\' || at + 1 >= text_.size()) {
                out += text_[at++];
            } else {
                at = escape(at + 1, out);
            }
        }
        return std::nullopt;
    }

    // Appends the escape whose letter is at `at`; returns the offset after it.
    size_t escape(size_t at, std::string& out) const {
        static constexpr std::string_view kNames = "abfnrtv0", kCodes("\a\b\f\n\r\t\v\0", 8);
        const char c = text_[at];
        if (const size_t i = kNames.find(c); i != std::string_view::npos) {
            out += kCodes[i];
            return at + 1;
        }
        const size_t n = c == 'u' ? 4 : c == 'x' ? 2 : 0;
        std::optional<uint32_t> code = hex(at + 1, n);
        if (!code) {
            out += c;
            return at + 1;
        }
        size_t end = at + 1 + n;
        if (*code >= 0xd800 && *code < 0xdc00 && text_.substr(end, 2) == "\\u") {
            const std::optional<uint32_t> low = hex(end + 2, 4);
            if (low && *low >= 0xdc00 && *low < 0xe000) {
                code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
                end += 6;
            }
        }
        utf8::append(out, *code >= 0xd800 && *code < 0xe000 ? 0xfffd : *code);
        return end;
    }

    std::optional<uint32_t> hex(size_t at, size_t n) const {
        if (n == 0 || at + n > text_.size()) return std::nullopt;
        const std::string digits(text_.substr(at, n));
        if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
        return static_cast<uint32_t>(jinja::read_int(digits, 16).value_or(0));
    }

    std::optional<std::string> bare_key() {
        const size_t end = std::min(text_.find_first_of(":,{}[]()\"' \n\t"), text_.size());
        if (end == 0) return std::nullopt;
        std::string out(text_.substr(0, end));
        text_.remove_prefix(end);
        return out;
    }

    std::optional<Value> word() {
        const size_t end = std::min(text_.find_first_of(",:{}[]() \n\t\r=\"'<"), text_.size());
        const std::string_view word = text_.substr(0, end);
        std::optional<Value> out;
        if (word == "true" || word == "True") out = Value::boolean(true);
        if (word == "false" || word == "False") out = Value::boolean(false);
        if (word == "null" || word == "None") out = Value::none();
        if (!out && !word.empty() &&
            (word[0] == '-' || word[0] == '+' || word[0] == '.' || (word[0] >= '0' && word[0] <= '9'))) {
            if (const auto integer = jinja::read_int(word)) {
                out = Value::integer(*integer);
            } else if (const auto real = jinja::read_float(word)) {
                out = Value::real(*real);
            }
        }
        if (out) text_.remove_prefix(end);
        return out;
    }

    std::string_view text_;
};

}  // namespace

std::optional<Value> read_literal(std::string_view& text) {
    LiteralReader reader(text);
    std::optional<Value> value = reader.value(0);
    if (value) text = reader.rest();
    return value;
}

}  // namespace tessera::chat
