// Filters on whole sequences: sorting, grouping, joining, selecting one item; and filters on numbers.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "common/strings.h"
#include "src/text/jinja/builtins.h"
#include "src/text/jinja/chars.h"
#include "src/text/jinja/member.h"
#include "src/text/jinja/merge_sort.h"
#include "src/text/jinja/numbers.h"
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

using V = const Value&;
using B = const Bound&;
using Out = Result<Value>;

Out length(Runtime& runtime, V self, B) {
    TSR_TRY(const size_t n, runtime.length(self));
    return Value::integer(static_cast<Integer>(n));
}

Out as_list(Runtime& runtime, V self, B) {
    TSR_TRY(Value::Items items, runtime.walk(self));
    return runtime.list(std::move(items));
}

Out first(Runtime& runtime, V self, B) {
    TSR_TRY(const Value::Items items, runtime.walk(self));
    return items.empty() ? runtime.undefined("No first item, sequence was empty.") : items.front();
}

Out last(Runtime& runtime, V self, B) {
    if (self.is(Kind::Generator))
        return fail(ErrorCode::InvalidArgument, "'generator' object is not reversible");
    TSR_TRY(const Value::Items items, runtime.walk(self));
    return items.empty() ? runtime.undefined("No last item, sequence was empty.") : items.back();
}

Out reversed(Runtime& runtime, V self, B) {
    TSR_TRY(Value::Items items, runtime.walk(self));
    std::reverse(items.begin(), items.end());
    if (!self.is_text()) return runtime.generator(std::move(items));
    std::string out;
    for (const Value& c : items) out += c.as_text();
    return runtime.text_like(self, std::move(out));
}

Out join(Runtime& runtime, V self, B args) {
    TSR_TRY(const Value::Items items, runtime.walk(self));
    std::string separator, out;
    if (args[0]) {
        TSR_TRY(separator, runtime.str(*args[0]));
    }
    const MemberPath path(args.or_none(1));
    bool begun = false;
    for (const Value& item : items) {
        TSR_TRY(const Value member, path.of(runtime, item));
        TSR_TRY(const std::string text, runtime.str(member));
        TSR_TRY_VOID(runtime.check_room(out.size() + separator.size() + text.size()));
        if (std::exchange(begun, true)) out += separator;
        out += text;
    }
    return runtime.text(std::move(out));
}

struct Keyed {
    Value key, item;
};

// Sorts by keys. The first failing comparison is the error; the remaining ones count as "not less".
Result<void> sort_by_key(Runtime& runtime, std::vector<Keyed>& rows, bool reverse) {
    Result<void> status;
    merge_sort(rows, [&](const Keyed& a, const Keyed& b) {
        if (!status) return false;
        const Result<bool> less = reverse ? runtime.less(b.key, a.key) : runtime.less(a.key, b.key);
        const Result<void> charged = runtime.charge(1);
        if (!charged) status = charged;
        if (!less) status = tl::unexpected<Error>(less.error());
        return less && *less;
    });
    return status;
}

Result<std::vector<Keyed>> keyed_items(Runtime& runtime, V self, V attribute, bool case_sensitive) {
    TSR_TRY(Value::Items items, runtime.walk(self));
    const MemberPath path(attribute);
    std::vector<Keyed> rows;
    for (Value& item : items) {
        TSR_TRY(Value key, path.of(runtime, item));
        if (!case_sensitive) key = without_case(runtime, std::move(key));
        rows.push_back({std::move(key), std::move(item)});
    }
    return rows;
}

// Comma-separated attributes are compared as a list.
Result<Value> sort_key(Runtime& runtime, V item, V attribute, bool case_sensitive) {
    Value::Items keys;
    for (const std::string_view name : split(attribute.as_text(), ',')) {
        TSR_TRY(Value key, MemberPath(Value::text(std::string(name))).of(runtime, item));
        keys.push_back(case_sensitive ? std::move(key) : without_case(runtime, std::move(key)));
    }
    return runtime.list(std::move(keys));
}

Out sorted(Runtime& runtime, V self, B args) {
    const bool reverse = flag_argument(args, 0, false), case_sensitive = flag_argument(args, 1, false);
    TSR_TRY(auto rows, keyed_items(runtime, self, args.or_none(2).is_text() ? Value::none() : args.or_none(2),
                                   case_sensitive));
    for (Keyed& row : rows) {
        if (!args.or_none(2).is_text()) continue;
        TSR_TRY(row.key, sort_key(runtime, row.item, *args[2], case_sensitive));
    }
    TSR_TRY_VOID(sort_by_key(runtime, rows, reverse));
    Value::Items items;
    for (Keyed& row : rows) items.push_back(std::move(row.item));
    return runtime.list(std::move(items));
}

Out sorted_dict(Runtime& runtime, V self, B args) {
    if (!self.is_dict())
        return fail(ErrorCode::InvalidArgument, "dictsort: expected a dict, found %s", self.type_name());
    TSR_TRY(const std::string_view by, text_argument(args, 1, "by", "key"));
    if (by != "key" && by != "value")
        return fail(ErrorCode::InvalidArgument, "You can only sort by either \"key\" or \"value\"");
    std::vector<Keyed> rows;
    for (const auto& [name, value] : self.as_dict().pairs()) {
        Value key = by == "key" ? name : value;
        if (!flag_argument(args, 0, false)) key = without_case(runtime, std::move(key));
        rows.push_back({std::move(key), runtime.tuple({name, value})});
    }
    TSR_TRY_VOID(sort_by_key(runtime, rows, flag_argument(args, 2, false)));
    Value::Items items;
    for (Keyed& row : rows) items.push_back(std::move(row.item));
    return runtime.list(std::move(items));
}

template <bool wants_max>
Out extreme(Runtime& runtime, V self, B args) {
    TSR_TRY(auto rows, keyed_items(runtime, self, args.or_none(1), flag_argument(args, 0, false)));
    if (rows.empty()) return runtime.undefined("No aggregated item, sequence was empty.");
    size_t best = 0;
    for (size_t i = 1; i < rows.size(); i++) {
        TSR_TRY(const bool better, wants_max ? runtime.less(rows[best].key, rows[i].key)
                                             : runtime.less(rows[i].key, rows[best].key));
        if (better) best = i;
    }
    return rows[best].item;
}

Out unique(Runtime& runtime, V self, B args) {
    TSR_TRY(auto rows, keyed_items(runtime, self, args.or_none(1), flag_argument(args, 0, false)));
    std::unordered_multimap<size_t, size_t> seen;
    Value::Items items;
    for (size_t i = 0; i < rows.size(); i++) {
        const Value& key = rows[i].key;
        if (!key.is_hashable())
            return fail(ErrorCode::InvalidArgument, "unhashable type: '%s'", key.type_name());
        TSR_TRY_VOID(runtime.charge(1));
        const size_t hash = key.hash();
        const auto [begin, end] = seen.equal_range(hash);
        if (std::any_of(begin, end,
                        [&](const auto& old) { return Value::same_key(rows[old.second].key, key); }))
            continue;
        seen.emplace(hash, i);
        items.push_back(rows[i].item);
    }
    return runtime.generator(std::move(items));
}

Out grouped(Runtime& runtime, V self, B args) {
    const Value preset = args[1] ? *args[1] : Value();
    TSR_TRY(const Value::Items items, runtime.walk(self));
    const MemberPath path(*args[0], preset);
    const bool case_sensitive = flag_argument(args, 2, false);
    std::vector<Keyed> rows;
    for (const Value& item : items) {
        TSR_TRY(Value key, path.of(runtime, item));
        if (!case_sensitive) key = without_case(runtime, std::move(key));
        rows.push_back({std::move(key), item});
    }
    TSR_TRY_VOID(sort_by_key(runtime, rows, false));
    Value::Items groups;
    for (size_t i = 0; i < rows.size();) {
        Value::Items members;
        const size_t begin = i;
        bool same = true;
        for (; i < rows.size() && same; i += same) {
            TSR_TRY(same, runtime.equal(rows[begin].key, rows[i].key));
            if (same) members.push_back(rows[i].item);
        }
        // The grouper keeps its original case.
        TSR_TRY(Value grouper, path.of(runtime, members[0]));
        groups.push_back(Value::sequence(Kind::Tuple, {std::move(grouper), runtime.list(std::move(members))},
                                         "group", runtime.heap()));
    }
    return runtime.list(std::move(groups));
}

Out sum(Runtime& runtime, V self, B args) {
    TSR_TRY(const Value::Items items, runtime.walk(self));
    const MemberPath path(args.or_none(0));
    Value total = args[1] ? *args[1] : Value::integer(0);
    for (const Value& item : items) {
        TSR_TRY(const Value member, path.of(runtime, item));
        TSR_TRY(total, runtime.binary(Op::Add, total, member));
    }
    return total;
}

Out batch(Runtime& runtime, V self, B args) {
    TSR_TRY(const int64_t size, int_argument(args, 0, "linecount", 1));
    TSR_TRY(const Value::Items items, runtime.walk(self));
    if (size <= 0) return fail(ErrorCode::InvalidArgument, "batch: expected a positive number of items");
    Value::Items rows, row;
    for (const Value& item : items) {
        row.push_back(item);
        if (static_cast<int64_t>(row.size()) == size) rows.push_back(runtime.list(std::exchange(row, {})));
    }
    if (!row.empty()) {
        const bool fills = !args.or_none(1).is_none();
        if (fills)
            TSR_TRY_VOID(
                runtime.make_room(static_cast<size_t>(std::min<int64_t>(size, INT32_MAX)) * sizeof(Value)));
        while (fills && static_cast<int64_t>(row.size()) < size) row.push_back(*args[1]);
        rows.push_back(runtime.list(std::move(row)));
    }
    return runtime.generator(std::move(rows));
}

Out slices(Runtime& runtime, V self, B args) {
    TSR_TRY(const int64_t n_slices, int_argument(args, 0, "slices", 1));
    TSR_TRY(const Value::Items items, runtime.walk(self));
    if (n_slices <= 0) return fail(ErrorCode::InvalidArgument, "slice: expected a positive number of slices");
    TSR_TRY_VOID(runtime.make_room(static_cast<size_t>(std::min<int64_t>(n_slices, INT32_MAX)) * 128));
    const auto n = static_cast<size_t>(n_slices);
    const size_t per_slice = items.size() / n, n_longer = items.size() % n;
    Value::Items rows;
    for (size_t i = 0, at = 0; i < n; i++) {
        const size_t count = per_slice + (i < n_longer);
        Value::Items row(items.begin() + static_cast<ptrdiff_t>(at),
                         items.begin() + static_cast<ptrdiff_t>(at + count));
        if (!args.or_none(1).is_none() && i >= n_longer) row.push_back(*args[1]);
        rows.push_back(runtime.list(std::move(row)));
        at += count;
    }
    return runtime.generator(std::move(rows));
}

Out pairs(Runtime& runtime, V self, B) {
    if (self.is_undefined()) return runtime.generator({});
    if (!self.is_dict()) return fail(ErrorCode::InvalidArgument, "Can only get item pairs from a mapping.");
    Value::Items items;
    for (const auto& [key, value] : self.as_dict().pairs()) items.push_back(runtime.tuple({key, value}));
    return runtime.generator(std::move(items));
}

Out or_default(Runtime& runtime, V self, B args) {
    const bool use_preset = self.is_undefined() || (flag_argument(args, 1, false) && !self.truthy());
    if (!use_preset) return self;
    return args[0] ? *args[0] : runtime.text("");
}

Out named_attribute(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string name, runtime.str(*args[0]));
    // Attributes only, no keys.
    if (self.is_dict() && !find_method(self, name)) return runtime.undefined("no attribute '" + name + "'");
    return runtime.attribute(self, name);
}

constexpr Builtin kSequenceFilters[] = {
    {"length", "", length},
    {"count", "", length},
    {"list", "", as_list},
    {"first", "", first},
    {"last", "", last},
    {"reverse", "", reversed},
    {"join", "d? attribute?", join},
    {"sort", "reverse? case_sensitive? attribute?", sorted},
    {"dictsort", "case_sensitive? by? reverse?", sorted_dict},
    {"min", "case_sensitive? attribute?", extreme<false>},
    {"max", "case_sensitive? attribute?", extreme<true>},
    {"unique", "case_sensitive? attribute?", unique},
    {"groupby", "attribute default? case_sensitive?", grouped},
    {"sum", "attribute? start?", sum},
    {"batch", "linecount fill_with?", batch},
    {"slice", "slices fill_with?", slices},
    {"items", "", pairs},
    {"default", "default_value? boolean?", or_default},
    {"d", "default_value? boolean?", or_default},
    {"attr", "name", named_attribute},
};

Out to_int(Runtime&, V self, B args) {
    const Value preset = args[0] ? *args[0] : Value::integer(0);
    TSR_TRY(const int64_t base, int_argument(args, 1, "base", 10));
    if (base != 0 && (base < 2 || base > 36))
        return fail(ErrorCode::InvalidArgument, "int() base must be >= 2 and <= 36, or 0");
    if (self.is_integral()) return Value::integer(self.as_int());
    if (self.is_undefined()) return fail(ErrorCode::InvalidArgument, "%s", self.as_text().c_str());
    std::optional<double> real;
    if (self.is(Kind::Float)) real = self.as_double();
    if (self.is_text()) {
        if (const auto value = read_int(self.as_text(), static_cast<int>(base)))
            return Value::integer(*value);
        real = read_float(self.as_text());
    }
    if (!real || !(std::fabs(*real) < 1e38)) return preset;
    return Value::integer(static_cast<Integer>(*real));
}

Out to_float(Runtime&, V self, B args) {
    if (self.is_number()) return Value::real(self.as_double());
    if (self.is_undefined()) return fail(ErrorCode::InvalidArgument, "%s", self.as_text().c_str());
    if (const auto value = self.is_text() ? read_float(self.as_text()) : std::nullopt)
        return Value::real(*value);
    return args[0] ? *args[0] : Value::real(0.0);
}

Out absolute(Runtime& runtime, V self, B) {
    if (self.is(Kind::Float)) return Value::real(std::fabs(self.as_double()));
    if (self.is_integral()) return runtime.negative(self, self.as_int() < 0);
    return fail(ErrorCode::InvalidArgument, "bad operand type for abs(): '%s'", self.type_name());
}

Out rounded(Runtime&, V self, B args) {
    TSR_TRY(const int64_t wide, int_argument(args, 0, "precision", 0));
    TSR_TRY(const std::string_view method, text_argument(args, 1, "method", "common"));
    const int precision = static_cast<int>(std::clamp<int64_t>(wide, -400, 400));
    if (!self.is_number())
        return fail(ErrorCode::InvalidArgument, "type %s doesn't define __round__ method", self.type_name());
    if (method == "common") {
        if (self.is_integral() && precision >= 0) return Value::integer(self.as_int());
        const double value = round_to(self.as_double(), precision);
        return self.is_integral() && std::fabs(value) < 1e38 ? Value::integer(static_cast<Integer>(value))
                                                             : Value::real(value);
    }
    if (method != "ceil" && method != "floor")
        return fail(ErrorCode::InvalidArgument, "method must be common, ceil or floor");
    const double unit = std::pow(10.0, precision);
    const double scaled = self.as_double() * unit;
    return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

constexpr Builtin kNumberFilters[] = {
    {"int", "default? base?", to_int},
    {"float", "default?", to_float},
    {"abs", "", absolute},
    {"round", "precision? method?", rounded},
};

}  // namespace

BuiltinTable sequence_filters() { return kSequenceFilters; }
BuiltinTable number_filters() { return kNumberFilters; }

}  // namespace tessera::jinja
