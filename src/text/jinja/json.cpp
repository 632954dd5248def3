// JSON. Parsing builds values from the events of nlohmann-json, without recursion; writing equals Python's
// json.dumps byte for byte.
#include "src/text/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/utf8.h"
#include "src/text/jinja/merge_sort.h"
#include "src/text/jinja/numbers.h"

namespace tessera::jinja {

namespace {

using Json = nlohmann::ordered_json;

// A context adds a few levels around the value.
constexpr size_t kMaxJsonDepth = kMaxValueDepth - 28;

class Reader final : public nlohmann::json_sax<Json> {
  public:
    bool null() override { return add(Value::none()); }
    bool boolean(bool value) override { return add(Value::boolean(value)); }
    bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
    bool number_unsigned(number_unsigned_t value) override { return add(Value::integer(value)); }
    bool number_float(number_float_t value, const string_t& digits) override {
        // nlohmann-json reports integers beyond 64 bits as floats; Python keeps them exact.
        if (const auto exact =
                digits.find_first_of(".eE") == string_t::npos ? read_int(digits) : std::nullopt)
            return add(Value::integer(*exact));
        return add(Value::real(value));
    }
    bool string(string_t& value) override { return add(Value::text(std::move(value))); }
    bool binary(binary_t&) override { return false; }
    bool start_object(size_t) override { return open(true); }
    bool start_array(size_t) override { return open(false); }
    bool key(string_t& value) override {
        levels_.back().key = Value::text(std::move(value));
        return true;
    }
    bool end_object() override {
        Value value = Value::dict(std::move(levels_.back().pairs));
        levels_.pop_back();
        return add(std::move(value));
    }
    bool end_array() override {
        Value value = Value::list(std::move(levels_.back().items));
        levels_.pop_back();
        return add(std::move(value));
    }
    bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
        message_ =
            strf("expected JSON, found an error at byte %zu: %s", position, reason(error.what()).c_str());
        return false;
    }

    Value take() { return std::move(root_); }
    const std::string& message() const { return message_; }

  private:
    struct Level {
        bool is_object = false;
        Value key;
        Value::Items items;
        Value::Pairs pairs;
    };

    // The library's message without its prefix and position.
    static std::string reason(std::string what) {
        const size_t colon = what.rfind("column ");
        const size_t at = colon == std::string::npos ? std::string::npos : what.find(": ", colon);
        return at == std::string::npos ? what : what.substr(at + 2);
    }

    bool open(bool is_object) {
        if (levels_.size() == kMaxJsonDepth) {
            message_ = strf("expected JSON of at most %zu levels, found more", kMaxJsonDepth);
            return false;
        }
        levels_.push_back({is_object, {}, {}, {}});
        return true;
    }

    bool add(Value value) {
        if (levels_.empty()) {
            root_ = std::move(value);
        } else if (levels_.back().is_object) {
            levels_.back().pairs.emplace_back(std::move(levels_.back().key), std::move(value));
        } else {
            levels_.back().items.push_back(std::move(value));
        }
        return true;
    }

    Value root_;
    std::vector<Level> levels_;
    std::string message_;
};

class Writer {
  public:
    explicit Writer(const JsonStyle& style) : style_(style) {}

    Result<void> write(const Value& value, size_t level) {
        if (out_.size() > style_.max_bytes)
            return fail(ErrorCode::OutOfMemory, "the JSON text has more than %zu bytes", style_.max_bytes);
        switch (value.kind()) {
            case Kind::None:
                out_ += "null";
                return {};
            case Kind::Bool:
                out_ += value.as_bool() ? "true" : "false";
                return {};
            case Kind::Int:
                out_ += format_int(value.as_int());
                return {};
            case Kind::Float:
                number(value.as_double());
                return {};
            case Kind::String:
                quoted(value.as_text());
                return {};
            case Kind::List:
            case Kind::Tuple:
                return sequence(value.items(), level);
            case Kind::Dict:
                return dict(value.as_dict(), level);
            default:
                return fail(ErrorCode::InvalidArgument, "Object of type %s is not JSON serializable",
                            value.type_name());
        }
    }

    std::string take() { return std::move(out_); }

  private:
    void number(double value) {
        if (std::isfinite(value)) {
            out_ += format_float(value);
        } else {
            out_ += std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
        }
    }

    void quoted(const std::string& text) {
        out_ += '"';
        for (size_t at = 0; at < text.size();) {
            const auto byte = static_cast<unsigned char>(text[at]);
            if (byte >= 0x80) {
                const utf8::Decoded c = utf8::decode(std::string_view(text).substr(at));
                if (style_.ensure_ascii) {
                    escape(c.code_point);
                } else {
                    utf8::append(out_, c.code_point);
                }
                at += c.n_bytes;
                continue;
            }
            at++;
            switch (byte) {
                case '"':
                    out_ += "\\\"";
                    break;
                case '\\':
                    out_ += "\\\\";
                    break;
                case '\n':
                    out_ += "\\n";
                    break;
                case '\r':
                    out_ += "\\r";
                    break;
                case '\t':
                    out_ += "\\t";
                    break;
                case '\b':
                    out_ += "\\b";
                    break;
                case '\f':
                    out_ += "\\f";
                    break;
                default:
                    if (byte < 0x20 || (byte == 0x7f && style_.ensure_ascii)) {
                        out_ += strf("\\u%04x", byte);
                    } else {
                        out_ += static_cast<char>(byte);
                    }
            }
        }
        out_ += '"';
    }

    void escape(uint32_t c) {
        if (c < 0x10000) {
            out_ += strf("\\u%04x", c);
        } else {
            out_ += strf("\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        }
    }

    void line(size_t level) {
        if (!style_.has_indent) return;
        out_ += '\n';
        for (size_t i = 0; i < level && out_.size() <= style_.max_bytes; i++) out_ += style_.indent;
    }

    Result<void> sequence(const Value::Items& items, size_t level) {
        if (items.empty()) {
            out_ += "[]";
            return {};
        }
        out_ += '[';
        for (size_t i = 0; i < items.size(); i++) {
            if (i > 0) out_ += style_.item_separator;
            line(level + 1);
            TSR_TRY_VOID(write(items[i], level + 1));
        }
        line(level);
        out_ += ']';
        return {};
    }

    static Result<std::string> key_text(const Value& key) {
        switch (key.kind()) {
            case Kind::String:
                return key.as_text();
            case Kind::None:
                return std::string("null");
            case Kind::Bool:
                return std::string(key.as_bool() ? "true" : "false");
            case Kind::Int:
                return format_int(key.as_int());
            case Kind::Float:
                return format_float(key.as_double());
            default:
                return fail(ErrorCode::InvalidArgument, "keys must be str, int, float, bool or None, not %s",
                            key.type_name());
        }
    }

    Result<void> dict(const DictNode& dict, size_t level) {
        if (dict.pairs().empty()) {
            out_ += "{}";
            return {};
        }
        std::vector<const std::pair<Value, Value>*> order;
        for (const auto& pair : dict.pairs()) order.push_back(&pair);
        if (style_.sort_keys) {
            const bool all_text =
                std::all_of(order.begin(), order.end(), [](auto* p) { return p->first.is_text(); });
            const bool all_numbers =
                std::all_of(order.begin(), order.end(), [](auto* p) { return p->first.is_number(); });
            if (!all_text && !all_numbers)
                return fail(ErrorCode::InvalidArgument, "keys of several types cannot be sorted");
            merge_sort(order, [&](auto* a, auto* b) {
                return all_text ? a->first.as_text() < b->first.as_text()
                                : a->first.as_double() < b->first.as_double();
            });
        }
        out_ += '{';
        for (size_t i = 0; i < order.size(); i++) {
            if (i > 0) out_ += style_.item_separator;
            line(level + 1);
            TSR_TRY(const std::string key, key_text(order[i]->first));
            quoted(key);
            out_ += style_.key_separator;
            TSR_TRY_VOID(write(order[i]->second, level + 1));
        }
        line(level);
        out_ += '}';
        return {};
    }

    const JsonStyle& style_;
    std::string out_;
};

}  // namespace

Result<Value> parse_json(std::string_view text) {
    Reader reader;
    if (!Json::sax_parse(text, &reader)) return fail(ErrorCode::Malformed, "%s", reader.message().c_str());
    return reader.take();
}

Result<std::string> dump_json(const Value& value, const JsonStyle& style) {
    Writer writer(style);
    TSR_TRY_VOID(writer.write(value, 0));
    return writer.take();
}

}  // namespace tessera::jinja
