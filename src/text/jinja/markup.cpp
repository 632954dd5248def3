// Markup as MarkupSafe 3 defines it, which jinja2 uses. In chat templates only `safe` and `escape` make any.
#include "src/text/jinja/markup.h"

#include <algorithm>

#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

// Methods that put their second argument into the result. Other arguments are only compared with the text.
constexpr std::string_view kInsertSecond[] = {"replace", "ljust", "rjust", "center"};

constexpr size_t kLongestEntity = 5;  // "&amp;"

Value as_markup(Runtime& runtime, const Value& value) {
    if (value.is_text()) return value.is_markup() ? value : runtime.markup(value.as_text());
    if (!value.is(Kind::List) && !value.is(Kind::Tuple)) return value;
    Value::Items items;
    for (const Value& item : value.items()) items.push_back(as_markup(runtime, item));
    return value.is(Kind::List) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

}  // namespace

std::string escape_html(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&#34;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

Result<Value> escape(Runtime& runtime, const Value& value) {
    if (value.is_markup()) return value;
    TSR_TRY(const std::string text, runtime.str(value));
    TSR_TRY_VOID(runtime.make_room(text.size() * kLongestEntity));
    return runtime.markup(escape_html(text));
}

Result<Value> call_markup_method(Runtime& runtime, const Builtin& method, const Value& self, Args args) {
    const bool inserts =
        std::find(std::begin(kInsertSecond), std::end(kInsertSecond), method.name) != std::end(kInsertSecond);
    if (method.name == "join" && !args.positional.empty()) {
        TSR_TRY(Value::Items items, runtime.walk(args.positional[0]));
        for (Value& item : items) {
            TSR_TRY(item, escape(runtime, item));
        }
        args.positional[0] = runtime.list(std::move(items));
    } else if (inserts && args.positional.size() > 1 && args.positional[1].is_text()) {
        TSR_TRY(args.positional[1], escape(runtime, args.positional[1]));
    }
    TSR_TRY(const Bound bound, bind(method, args));
    TSR_TRY(const Value result, method.function(runtime, self, bound));
    return as_markup(runtime, result);
}

}  // namespace tessera::jinja
