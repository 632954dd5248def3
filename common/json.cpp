// JSON by nlohmann's event parser, which does not recurse and passes numbers on as text. The depth is bounded
// here, so that code that walks the tree may recurse.
#include "common/json.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <set>

#include "common/strings.h"

namespace tessera {

namespace {

constexpr size_t kMaxDepth = 128;

class Handler : public nlohmann::json_sax<nlohmann::json> {
  public:
    bool null() override { return add({}); }
    bool boolean(bool value) override { return add({.kind = JsonValue::Kind::Boolean, .boolean = value}); }
    bool number_integer(number_integer_t value) override { return number(std::to_string(value)); }
    bool number_unsigned(number_unsigned_t value) override { return number(std::to_string(value)); }
    bool number_float(number_float_t, const string_t& text) override { return number(text); }
    bool string(string_t& text) override {
        return add({.kind = JsonValue::Kind::String, .text = std::move(text)});
    }
    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(JsonValue::Kind::Object); }
    bool start_array(std::size_t) override { return open(JsonValue::Kind::Array); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& name) override {
        JsonValue& object = *stack_.back();
        if (!names_.back().insert(name).second) {
            error = strf("the name \"%s\" occurs twice in one object", printable(name).c_str());
            return false;
        }
        object.members.emplace_back(std::move(name), JsonValue());
        return true;
    }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& e) override {
        std::string what = e.what();
        if (const size_t colon = what.find("column"); colon != what.npos) what.erase(0, colon);
        error = strf("no JSON at byte %zu: %s", position, printable(what, 160).c_str());
        return false;
    }

    JsonValue root;
    std::string error;

  private:
    bool number(std::string text) { return add({.kind = JsonValue::Kind::Number, .text = std::move(text)}); }
    JsonValue* place(JsonValue value) {
        if (stack_.empty()) {
            root = std::move(value);
            return &root;
        }
        JsonValue& parent = *stack_.back();
        JsonValue& at =
            parent.is(JsonValue::Kind::Array) ? parent.items.emplace_back() : parent.members.back().second;
        at = std::move(value);
        return &at;
    }
    bool add(JsonValue value) { return place(std::move(value)) != nullptr; }
    bool open(JsonValue::Kind kind) {
        if (stack_.size() >= kMaxDepth) {
            error = strf("it nests deeper than %zu", kMaxDepth);
            return false;
        }
        JsonValue value;
        value.kind = kind;
        stack_.push_back(place(std::move(value)));
        names_.emplace_back();
        return true;
    }
    bool close() {
        stack_.pop_back();
        names_.pop_back();
        return true;
    }

    std::vector<JsonValue*> stack_;  // a parent's list does not grow while a child is open
    std::vector<std::set<std::string>> names_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
    const auto at =
        std::find_if(members.rbegin(), members.rend(), [&](const auto& m) { return m.first == name; });
    return at == members.rend() ? nullptr : &at->second;
}

const char* json_kind_name(JsonValue::Kind kind) {
    constexpr const char* kNames[] = {"null", "boolean", "number", "string", "array", "object"};
    return kNames[static_cast<size_t>(kind)];
}

Result<JsonValue> parse_json(std::string_view text) {
    Handler handler;
    bool done = false;
    try {
        done = nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
    } catch (const std::exception& e) {
        handler.error = printable(e.what(), 160);
    }
    if (!done) return fail(ErrorCode::Malformed, "%s", handler.error.c_str());
    return std::move(handler.root);
}

std::string pointer_escape(std::string_view name) {
    std::string out;
    for (const char c : name) {
        if (c == '~')
            out += "~0";
        else if (c == '/')
            out += "~1";
        else
            out += c;
    }
    return out;
}

const JsonValue* find_pointer(const JsonValue& root, std::string_view pointer) {
    const JsonValue* at = &root;
    if (pointer.empty()) return at;
    if (pointer[0] != '/') return nullptr;
    for (const std::string_view part : split(pointer.substr(1), '/')) {
        std::string name;
        for (size_t i = 0; i < part.size(); i++) {
            if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1'))
                name += part[++i] == '0' ? '~' : '/';
            else
                name += part[i];
        }
        if (at->is(JsonValue::Kind::Object)) {
            at = at->find(name);
            if (!at) return nullptr;
        } else if (at->is(JsonValue::Kind::Array)) {
            const auto index = parse_int(name);
            if (!index || *index < 0 || static_cast<size_t>(*index) >= at->items.size()) return nullptr;
            at = &at->items[static_cast<size_t>(*index)];
        } else {
            return nullptr;
        }
    }
    return at;
}

}  // namespace tessera
