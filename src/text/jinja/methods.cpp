// Python's methods of text, dicts and sequences. Methods that modify their object do not exist: values are
// immutable, and Jinja's sandbox refuses them too.
#include <algorithm>
#include <cmath>

#include "common/utf8.h"
#include "src/text/jinja/builtins.h"
#include "src/text/jinja/chars.h"
#include "src/text/jinja/format.h"
#include "src/text/jinja/lexer.h"
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

using V = const Value&;
using B = const Bound&;
using Out = Result<Value>;

template <std::string (*map)(std::string_view)>
Out mapped_text(Runtime& runtime, V self, B) {
    TSR_TRY_VOID(runtime.charge_bytes(self.as_text().size() * 8));
    return runtime.text(map(self.as_text()));
}

template <bool left, bool right>
Out stripped(Runtime& runtime, V self, B args) {
    const std::string* set = nullptr;
    if (args[0] && !args[0]->is_none()) {
        TSR_TRY_VOID(text_argument(args, 0, "strip() characters", ""));
        set = &args[0]->as_text();
        TSR_TRY_VOID(runtime.charge_bytes(self.as_text().size() * (set->size() + 1)));
    }
    return runtime.text(std::string(strip(self.as_text(), left, right, set)));
}

template <bool (*holds)(uint32_t)>
Out all_chars(Runtime& runtime, V self, B) {
    TSR_TRY_VOID(runtime.charge_bytes(self.as_text().size() * 8));
    const auto chars = characters(self.as_text());
    return Value::boolean(!chars.empty() && std::all_of(chars.begin(), chars.end(), [](std::string_view c) {
        return holds(utf8::decode(c).code_point);
    }));
}

bool is_alnum(uint32_t c) { return is_alpha_char(c) || is_digit_char(c); }
bool is_space(uint32_t c) {
    std::string text;
    utf8::append(text, c);
    return space_at(text, 0) > 0;
}
bool is_ascii(uint32_t c) { return c < 0x80; }

template <bool want_upper>
Out in_case(Runtime& runtime, V self, B) {
    TSR_TRY(const bool holds, runtime.test(want_upper ? "upper" : "lower", self, {}));
    return Value::boolean(holds);
}

// text[from:to] by the optional arguments 1 and 2, as bytes, and its begin.
struct Part {
    std::string_view text;
    size_t begin = 0;
    bool exists = true;  // false: begins after the end
};

Result<Part> part_of(Runtime& runtime, V self, B args) {
    const std::string_view whole = self.as_text();
    const auto n = static_cast<int64_t>(self.n_chars());
    int64_t bounds[2] = {0, n};
    for (size_t i = 0; i < 2; i++) {
        if (!args[i + 1] || args[i + 1]->is_none()) continue;
        TSR_TRY(const int64_t at, int_argument(args, i + 1, "bound", 0));
        bounds[i] = at < 0 ? std::max<int64_t>(0, at + n) : at;
    }
    if (bounds[0] > n) return Part{{}, whole.size(), false};
    bounds[1] = std::min(bounds[1], n);
    if (args[1]) TSR_TRY_VOID(runtime.charge_bytes(whole.size()));
    const size_t begin = char_offset(whole, static_cast<size_t>(bounds[0]));
    if (bounds[1] < bounds[0]) return Part{{}, begin, false};
    const size_t length = char_offset(whole.substr(begin), static_cast<size_t>(bounds[1] - bounds[0]));
    return Part{whole.substr(begin, length), begin, true};
}

// Searches from the right; charges for each position compared.
Result<size_t> find_last(Runtime& runtime, std::string_view text, std::string_view part) {
    if (part.size() > text.size()) return std::string_view::npos;
    for (size_t at = text.size() - part.size() + 1; at-- > 0;) {
        if (!part.empty() && text[at] != part[0]) continue;
        TSR_TRY_VOID(runtime.charge_bytes(part.size()));
        if (text.substr(at, part.size()) == part) return at;
    }
    TSR_TRY_VOID(runtime.charge_bytes(text.size()));
    return std::string_view::npos;
}

template <bool from_right, bool must_exist>
Out find_part(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string_view wanted, text_argument(args, 0, "find() text", ""));
    TSR_TRY(const Part part, part_of(runtime, self, args));
    size_t at = std::string_view::npos;
    if (part.exists) {
        TSR_TRY(at, from_right ? find_last(runtime, part.text, wanted) : runtime.find(part.text, wanted));
    }
    if (at != std::string_view::npos)
        return Value::integer(static_cast<Integer>(count_before(self.as_text(), part.begin + at)));
    if (must_exist) return fail(ErrorCode::InvalidArgument, "substring not found");
    return Value::integer(-1);
}

Out count(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string_view wanted, text_argument(args, 0, "count() text", ""));
    TSR_TRY(const Part part, part_of(runtime, self, args));
    if (wanted.empty())
        return Value::integer(
            part.exists ? static_cast<Integer>(count_before(part.text, std::string_view::npos)) + 1 : 0);
    Integer n = 0;
    for (size_t at = 0;; n++) {
        TSR_TRY(at, runtime.find(part.text, wanted, at));
        if (at == std::string_view::npos) return Value::integer(n);
        at += wanted.size();
    }
}

// startswith, endswith: a text or a tuple of them.
template <bool at_end>
Out edge(Runtime& runtime, V self, B args) {
    TSR_TRY(const Part part, part_of(runtime, self, args));
    const bool several = args[0]->is(Kind::Tuple);
    const std::span<const Value> wanted = several ? std::span(args[0]->items()) : std::span(args[0], 1);
    for (const Value& text : wanted) {
        if (!text.is_text())
            return fail(ErrorCode::InvalidArgument, "%s first arg must be str or a tuple of str, not %s",
                        at_end ? "endswith" : "startswith", text.type_name());
        TSR_TRY_VOID(runtime.charge_bytes(text.as_text().size()));
        if (part.exists &&
            (at_end ? part.text.ends_with(text.as_text()) : part.text.starts_with(text.as_text())))
            return Value::boolean(true);
    }
    return Value::boolean(false);
}

template <bool at_end>
Out without_edge(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string_view edge_text, text_argument(args, 0, "affix", ""));
    std::string_view text = self.as_text();
    if (at_end && text.ends_with(edge_text)) text.remove_suffix(edge_text.size());
    if (!at_end && text.starts_with(edge_text)) text.remove_prefix(edge_text.size());
    return runtime.text(std::string(text));
}

// Splits at runs of white space; after `most` splits the last part takes the rest.
Value::Items split_spaces(Runtime& runtime, std::string_view text, int64_t most, bool from_right) {
    Value::Items parts;
    text = strip(text, !from_right, from_right);
    while (!text.empty()) {
        size_t at = from_right ? text.size() : 0, n = 0;
        const bool is_last = most >= 0 && static_cast<int64_t>(parts.size()) >= most;
        if (from_right) {
            while (!is_last && at > 0 && (n = space_before(text, at)) == 0) at--;
            parts.push_back(runtime.text(std::string(is_last ? text : text.substr(at))));
            text = is_last ? std::string_view() : strip(text.substr(0, at), false, true);
        } else {
            while (!is_last && at < text.size() && (n = space_at(text, at)) == 0) at++;
            parts.push_back(runtime.text(std::string(is_last ? text : text.substr(0, at))));
            text = is_last ? std::string_view() : strip(text.substr(at), true, false);
        }
        if (parts.back().as_text().empty()) parts.pop_back();
    }
    if (from_right) std::reverse(parts.begin(), parts.end());
    return parts;
}

template <bool from_right>
Out split_text(Runtime& runtime, V self, B args) {
    TSR_TRY(const int64_t most, int_argument(args, 1, "maxsplit", -1));
    std::string_view text = self.as_text();
    TSR_TRY_VOID(runtime.charge_bytes(text.size() * 4));
    if (!args[0] || args[0]->is_none()) return runtime.list(split_spaces(runtime, text, most, from_right));
    TSR_TRY(const std::string_view separator, text_argument(args, 0, "separator", ""));
    if (separator.empty()) return fail(ErrorCode::InvalidArgument, "empty separator");
    Value::Items parts;
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
        TSR_TRY(const size_t at,
                from_right ? find_last(runtime, text, separator) : runtime.find(text, separator));
        if (at == std::string_view::npos) break;
        parts.push_back(
            runtime.text(std::string(from_right ? text.substr(at + separator.size()) : text.substr(0, at))));
        text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
    }
    parts.push_back(runtime.text(std::string(text)));
    if (from_right) std::reverse(parts.begin(), parts.end());
    return runtime.list(std::move(parts));
}

template <bool from_right>
Out partition(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string_view separator, text_argument(args, 0, "separator", ""));
    if (separator.empty()) return fail(ErrorCode::InvalidArgument, "empty separator");
    const std::string& text = self.as_text();
    TSR_TRY(const size_t at,
            from_right ? find_last(runtime, text, separator) : runtime.find(text, separator));
    const Value nothing = runtime.text("");
    if (at == std::string_view::npos)
        return runtime.tuple(from_right ? Value::Items{nothing, nothing, self}
                                        : Value::Items{self, nothing, nothing});
    return runtime.tuple(
        {runtime.text(text.substr(0, at)), *args[0], runtime.text(text.substr(at + separator.size()))});
}

Out split_lines(Runtime& runtime, V self, B args) {
    const bool keep = flag_argument(args, 0, false);
    std::string_view text = self.as_text();
    Value::Items lines;
    while (!text.empty()) {
        const size_t at = std::min(text.find_first_of("\n\r\v\f\x1c\x1d\x1e"), text.size());
        const size_t end = at + (text.substr(at, 2) == "\r\n" ? 2 : at < text.size() ? 1 : 0);
        lines.push_back(runtime.text(std::string(text.substr(0, keep ? end : at))));
        text.remove_prefix(end);
    }
    return runtime.list(std::move(lines));
}

Out replace_method(Runtime& runtime, V self, B args) {
    TSR_TRY(const Value result, runtime.filter("replace", self, args.raw()));
    return result;
}

Out join_method(Runtime& runtime, V self, B args) {
    TSR_TRY(const Value::Items items, runtime.walk(*args[0]));
    std::string out;
    for (size_t i = 0; i < items.size(); i++) {
        if (!items[i].is_text())
            return fail(ErrorCode::InvalidArgument, "sequence item %zu: expected str instance, %s found", i,
                        items[i].type_name());
        TSR_TRY_VOID(runtime.check_room(out.size() + self.as_text().size() + items[i].as_text().size()));
        if (i > 0) out += self.as_text();
        out += items[i].as_text();
    }
    return runtime.text(std::move(out));
}

// ljust, rjust, center: 0, 1, 2.
template <int side>
Out justified(Runtime& runtime, V self, B args) {
    TSR_TRY(const int64_t width, int_argument(args, 0, "width", 0));
    TSR_TRY(const std::string_view fill, text_argument(args, 1, "fill", " "));
    if (count_before(fill, std::string_view::npos) != 1)
        return fail(ErrorCode::InvalidArgument, "The fill character must be exactly one character long");
    const auto n = static_cast<int64_t>(self.n_chars());
    if (width <= n) return self;
    if (width > INT32_MAX) return fail(ErrorCode::OutOfMemory, "a width of more than 2^31 characters");
    TSR_TRY_VOID(runtime.make_room(static_cast<size_t>(width) * fill.size()));
    const int64_t n_fill = width - n;
    // Python puts the odd character on the left if the width is odd too.
    const int64_t n_left = side == 0 ? 0 : side == 1 ? n_fill : n_fill / 2 + (n_fill & width & 1);
    std::string left, right;
    for (int64_t i = 0; i < n_fill; i++) (i < n_left ? left : right) += fill;
    return runtime.text(left + self.as_text() + right);
}

Out zero_filled(Runtime& runtime, V self, B args) {
    const std::string& text = self.as_text();
    const bool is_signed = !text.empty() && (text[0] == '+' || text[0] == '-');
    const Value digits = runtime.text(text.substr(is_signed));
    TSR_TRY(const int64_t width, int_argument(args, 0, "width", 0));
    Args padded;
    padded.positional = {Value::integer(static_cast<Integer>(width) - is_signed), runtime.text("0")};
    static constexpr Builtin kRow = {"zfill", "width fill", justified<1>};
    TSR_TRY(const Bound bound, bind(kRow, padded));
    TSR_TRY(const Value filled, justified<1>(runtime, digits, bound));
    return runtime.text(text.substr(0, is_signed) + filled.as_text());
}

Out format_text(Runtime& runtime, V self, B args) { return format_fields(runtime, self, args.raw()); }

std::string swap_case(std::string_view text) {
    std::string out;
    for (const std::string_view c : characters(text)) out += upper(c) == c ? lower(c) : upper(c);
    return out;
}

constexpr Builtin kTextMethods[] = {
    {"upper", "", mapped_text<upper>},
    {"lower", "", mapped_text<lower>},
    {"casefold", "", mapped_text<lower>},
    {"title", "", mapped_text<title>},
    {"capitalize", "", mapped_text<capitalize>},
    {"swapcase", "", mapped_text<swap_case>},
    {"strip", "chars?", stripped<true, true>},
    {"lstrip", "chars?", stripped<true, false>},
    {"rstrip", "chars?", stripped<false, true>},
    {"startswith", "prefix start? end?", edge<false>},
    {"endswith", "suffix start? end?", edge<true>},
    {"removeprefix", "prefix", without_edge<false>},
    {"removesuffix", "suffix", without_edge<true>},
    {"split", "sep? maxsplit?", split_text<false>},
    {"rsplit", "sep? maxsplit?", split_text<true>},
    {"splitlines", "keepends?", split_lines},
    {"partition", "sep", partition<false>},
    {"rpartition", "sep", partition<true>},
    {"replace", "*", replace_method},
    {"join", "iterable", join_method},
    {"find", "sub start? end?", find_part<false, false>},
    {"rfind", "sub start? end?", find_part<true, false>},
    {"index", "sub start? end?", find_part<false, true>},
    {"rindex", "sub start? end?", find_part<true, true>},
    {"count", "sub start? end?", count},
    {"ljust", "width fillchar?", justified<0>},
    {"rjust", "width fillchar?", justified<1>},
    {"center", "width fillchar?", justified<2>},
    {"zfill", "width", zero_filled},
    {"format", "*", format_text},
    {"isalpha", "", all_chars<is_alpha_char>},
    {"isdigit", "", all_chars<is_digit_char>},
    {"isnumeric", "", all_chars<is_digit_char>},
    {"isdecimal", "", all_chars<is_digit_char>},
    {"isalnum", "", all_chars<is_alnum>},
    {"isspace", "", all_chars<is_space>},
    {"isascii", "", all_chars<is_ascii>},
    {"isupper", "", in_case<true>},
    {"islower", "", in_case<false>},
};

enum class PairPart { Key, Value, Both };

template <PairPart part>
Out view(Runtime& runtime, V self, B) {
    Value::Items items;
    for (const auto& [key, value] : self.as_dict().pairs())
        items.push_back(part == PairPart::Both  ? runtime.tuple({key, value})
                        : part == PairPart::Key ? key
                                                : value);
    const char* label = part == PairPart::Both  ? "dict_items"
                        : part == PairPart::Key ? "dict_keys"
                                                : "dict_values";
    return Value::sequence(Kind::View, std::move(items), label, runtime.heap());
}

Out get(Runtime&, V self, B args) {
    if (!args[0]->is_hashable())
        return fail(ErrorCode::InvalidArgument, "unhashable type: '%s'", args[0]->type_name());
    const Value* value = self.as_dict().find(*args[0]);
    return value ? *value : args.or_none(1);
}

Out itself(Runtime&, V self, B) { return self; }

constexpr Builtin kDictMethods[] = {
    {"keys", "", view<PairPart::Key>},
    {"values", "", view<PairPart::Value>},
    {"items", "", view<PairPart::Both>},
    {"get", "key default?", get},
    {"copy", "", itself},
};

template <bool counts>
Out search(Runtime& runtime, V self, B args) {
    Integer n = 0;
    for (size_t i = 0; i < self.items().size(); i++) {
        TSR_TRY_VOID(runtime.charge(1));
        TSR_TRY(const bool same, runtime.equal(self.items()[i], *args[0]));
        if (same && !counts) return Value::integer(static_cast<Integer>(i));
        n += same;
    }
    if (counts) return Value::integer(n);
    return fail(ErrorCode::InvalidArgument, "the value is not in the %s", self.type_name());
}

constexpr Builtin kSequenceMethods[] = {
    {"count", "value", search<true>},
    {"index", "value", search<false>},
    {"copy", "", itself},
};

Out is_whole(Runtime&, V self, B) {
    return Value::boolean(std::isfinite(self.as_double()) &&
                          std::trunc(self.as_double()) == self.as_double());
}

constexpr Builtin kFloatMethods[] = {{"is_integer", "", is_whole}};

constexpr std::string_view kListMutators[] = {"append", "clear",  "extend",  "insert",
                                              "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

}  // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
    switch (self.kind()) {
        case Kind::String:
            return find_row(kTextMethods, name);
        case Kind::Dict:
            return find_row(kDictMethods, name);
        case Kind::List:
            return find_row(kSequenceMethods, name);
        case Kind::Tuple:
        case Kind::Range:
            return find_row(BuiltinTable(kSequenceMethods).first(2), name);
        case Kind::Float:
            return find_row(kFloatMethods, name);
        default:
            return nullptr;
    }
}

bool is_mutating_method(const Value& self, std::string_view name) {
    const auto has = [&](std::span<const std::string_view> names) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    return (self.is(Kind::List) && has(kListMutators)) || (self.is_dict() && has(kDictMutators));
}

}  // namespace tessera::jinja
