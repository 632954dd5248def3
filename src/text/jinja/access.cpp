// Attributes, items, slices and iteration of values. As in Jinja, `.name` looks for attributes (methods)
// first and for keys second, and `['name']` the other way round.
#include <algorithm>

#include "src/text/jinja/chars.h"
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

std::string described(const Value& object) {
    // Jinja's wording.
    return object.is_none() ? "None" : std::string("'") + object.type_name() + " object'";
}

// Members of tuples that groupby makes.
std::optional<Value> group_member(const Value& object, std::string_view name) {
    if (!object.is(Kind::Tuple) || object.label() != "group") return std::nullopt;
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
    return std::nullopt;
}

}  // namespace

Result<Value> Runtime::attribute(const Value& object, const std::string& name) {
    if (object.is_undefined()) return fail(ErrorCode::InvalidArgument, "%s", object.as_text().c_str());
    // Python's special attributes, which the sandbox hides.
    if (name.size() > 4 && name.starts_with("__") && name.ends_with("__"))
        return undefined(
            strf("access to attribute '%s' of '%s' object is unsafe.", name.c_str(), object.type_name()));
    if (const Builtin* method = find_method(object, name))
        return Value::object(make_function(*method, object, &heap_));
    if (is_mutating_method(object, name))
        return undefined(
            strf("access to attribute '%s' of '%s' object is unsafe.", name.c_str(), object.type_name()));
    if (object.is(Kind::Object)) {
        const std::shared_ptr<Object> held = object.object_ptr();
        TSR_TRY(std::optional<Value> member, held->attribute(*this, name));
        if (member) return std::move(*member);
    }
    if (std::optional<Value> member = group_member(object, name)) return std::move(*member);
    if (const Value* member = object.find(name)) return *member;
    return undefined(described(object) + " has no attribute '" + name + "'");
}

Result<Value> Runtime::item(const Value& object, const Value& key) {
    if (object.is_undefined()) return fail(ErrorCode::InvalidArgument, "%s", object.as_text().c_str());
    if (object.is_dict()) {
        if (!key.is_hashable()) return undefined("unhashable key");
        if (const Value* member = object.as_dict().find(key)) return *member;
    }
    if (key.is_text()) return attribute(object, key.as_text());
    return item_at(object, key);
}

Result<Value> Runtime::item_at(const Value& object, const Value& key) {
    const bool indexed =
        object.is_text() || object.is(Kind::List) || object.is(Kind::Tuple) || object.is(Kind::Range);
    if (indexed && key.is_integral()) {
        const auto n = static_cast<Integer>(object.is_text() ? object.n_chars() : object.items().size());
        const Integer at = key.as_int() < 0 ? key.as_int() + n : key.as_int();
        if (at >= 0 && at < n) {
            const auto i = static_cast<size_t>(at);
            if (!object.is_text()) return object.items()[i];
            const std::string& whole = object.as_text();
            TSR_TRY_VOID(charge_bytes(whole.size() == object.n_chars() ? 0 : whole.size()));
            const size_t begin = whole.size() == object.n_chars() ? i : char_offset(whole, i);
            const size_t end = begin + char_offset(std::string_view(whole).substr(begin), 1);
            return text_like(object, whole.substr(begin, end - begin));
        }
    }
    TSR_TRY(const std::string shown, repr(key));
    return undefined(described(object) + " has no element " + shown.substr(0, 200));
}

Result<Value> Runtime::slice(const Value& object, const Value* from, const Value* to, const Value* step) {
    if (object.is_undefined()) return fail(ErrorCode::InvalidArgument, "%s", object.as_text().c_str());
    const bool sliceable =
        object.is_text() || object.is(Kind::List) || object.is(Kind::Tuple) || object.is(Kind::Range);
    if (!sliceable)
        return fail(ErrorCode::InvalidArgument, "'%s' object cannot be sliced", object.type_name());
    const auto given = [](const Value* bound) { return bound && !bound->is_none(); };
    for (const Value* bound : {from, to, step})
        if (given(bound) && !bound->is_integral())
            return fail(ErrorCode::InvalidArgument, "slice indices must be integers or None, not %s",
                        bound->type_name());
    const Integer stride = given(step) ? step->as_int() : 1;
    if (stride == 0) return fail(ErrorCode::InvalidArgument, "slice step cannot be zero");

    const auto n = static_cast<Integer>(object.is_text() ? object.n_chars() : object.items().size());
    const Integer low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
    const auto clamp = [&](const Value* bound, Integer preset) {
        if (!given(bound)) return preset;
        const Integer at = bound->as_int();
        return std::clamp(at < 0 ? at + n : at, low, high);
    };
    const Integer begin = clamp(from, stride > 0 ? low : high), end = clamp(to, stride > 0 ? high : low);
    std::vector<size_t> places;
    for (Integer at = begin; stride > 0 ? at < end : at > end;) {
        places.push_back(static_cast<size_t>(at));
        if (stride > n || stride < -n) break;
        at += stride;
    }
    TSR_TRY_VOID(charge(places.size() / 8 + 1));
    if (!object.is_text()) {
        Value::Items items;
        items.reserve(places.size());
        for (const size_t i : places) items.push_back(object.items()[i]);
        return object.is(Kind::Tuple) ? tuple(std::move(items)) : list(std::move(items));
    }
    const std::string& whole = object.as_text();
    std::string out;
    if (whole.size() == object.n_chars()) {
        for (const size_t i : places) out += whole[i];
    } else {
        TSR_TRY_VOID(make_room(object.n_chars() * sizeof(std::string_view)));
        const std::vector<std::string_view> chars = characters(whole);
        for (const size_t i : places) out += chars[i];
    }
    return text_like(object, std::move(out));
}

Result<Value::Items> Runtime::walk(const Value& value) {
    Value::Items items;
    switch (value.kind()) {
        case Kind::Undefined:
            return items;
        case Kind::List:
        case Kind::Tuple:
        case Kind::View:
        case Kind::Range:
            TSR_TRY_VOID(make_room(value.items().size() * sizeof(Value)));
            return value.items();
        case Kind::Generator:
            return value.take_items();
        case Kind::Dict:
            TSR_TRY_VOID(charge(value.as_dict().pairs().size() / 8));
            for (const auto& [key, member] : value.as_dict().pairs()) items.push_back(key);
            return items;
        case Kind::String:
            TSR_TRY_VOID(make_room(value.n_chars() * (sizeof(Value) + sizeof(TextNode))));
            for (const std::string_view c : characters(value.as_text()))
                items.push_back(text(std::string(c)));
            return items;
        default:
            return fail(ErrorCode::InvalidArgument, "'%s' object is not iterable", value.type_name());
    }
}

Result<size_t> Runtime::length(const Value& value) {
    switch (value.kind()) {
        case Kind::Undefined:
            return size_t{0};
        case Kind::String:
            return value.n_chars();
        case Kind::List:
        case Kind::Tuple:
        case Kind::View:
        case Kind::Range:
            return value.items().size();
        case Kind::Dict:
            return value.as_dict().pairs().size();
        default:
            return fail(ErrorCode::InvalidArgument, "object of type '%s' has no len()", value.type_name());
    }
}

}  // namespace tessera::jinja
