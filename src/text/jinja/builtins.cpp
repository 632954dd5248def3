// Lookup and calls of rows of the tables, and the global functions. The other tables: filters_*.cpp,
// tests.cpp, methods.cpp.
#include "src/text/jinja/builtins.h"

#include <algorithm>

#include "common/strings.h"
#include "src/text/jinja/objects.h"

namespace tessera::jinja {

namespace {

// The limit of Jinja's sandbox.
constexpr int64_t kMaxRange = 100000;

// joiner(): empty at the first call, the separator afterwards.
class JoinerObject final : public Object {
  public:
    JoinerObject(std::string separator, Heap* heap)
        : Object(heap, sizeof(JoinerObject)), separator_(std::move(separator)) {}
    const char* type_name() const override { return "Joiner"; }
    bool is_callable() const override { return true; }
    Result<Value> call(Runtime& runtime, Args) override {
        return runtime.text(std::exchange(used_, true) ? separator_ : "");
    }

  private:
    const std::string separator_;
    bool used_ = false;
};

class CyclerObject final : public Object {
  public:
    CyclerObject(Value::Items items, Heap* heap)
        : Object(heap, sizeof(CyclerObject)), items_(std::move(items)) {}
    const char* type_name() const override { return "Cycler"; }
    void clear() override { items_.clear(); }
    Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override;

    Value current() const { return items_[at_]; }
    Value next() {
        const size_t at = std::exchange(at_, (at_ + 1) % items_.size());
        return items_[at];
    }
    void reset() { at_ = 0; }

  private:
    Value::Items items_;
    size_t at_ = 0;
};

CyclerObject& cycler_of(const Value& self) { return static_cast<CyclerObject&>(self.as_object()); }

constexpr Builtin kCyclerMethods[] = {
    {"next", "",
     [](Runtime&, const Value& self, const Bound&) -> Result<Value> { return cycler_of(self).next(); }},
    {"reset", "",
     [](Runtime&, const Value& self, const Bound&) -> Result<Value> {
         cycler_of(self).reset();
         return Value::none();
     }},
};

Result<std::optional<Value>> CyclerObject::attribute(Runtime& runtime, std::string_view name) {
    if (name == "current") return std::optional(current());
    const Builtin* method = find_row(kCyclerMethods, name);
    if (!method) return std::optional<Value>();
    return std::optional(
        Value::object(make_function(*method, Value::object(shared_from_this()), runtime.heap())));
}

Result<Value> range(Runtime& runtime, const Value&, const Bound& args) {
    int64_t bounds[3] = {0, 0, 1};
    for (size_t i = 0; i < 3; i++) {
        TSR_TRY(bounds[i], int_argument(args, i, "range() bound", bounds[i]));
    }
    if (!args[1]) std::swap(bounds[0], bounds[1]);
    const auto [from, to, step] = bounds;
    if (step == 0) return fail(ErrorCode::InvalidArgument, "range() arg 3 must not be zero");
    const Integer span = step > 0 ? static_cast<Integer>(to) - from : static_cast<Integer>(from) - to;
    const Integer stride = step > 0 ? static_cast<Integer>(step) : -static_cast<Integer>(step);
    const Integer n = span <= 0 ? 0 : (span + stride - 1) / stride;
    if (n > kMaxRange)
        return fail(ErrorCode::InvalidArgument,
                    "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                    static_cast<int>(kMaxRange));
    Value::Items items;
    items.reserve(static_cast<size_t>(n));
    for (Integer i = 0; i < n; i++) items.push_back(Value::integer(from + i * step));
    std::string label = "range(" + std::to_string(from) + ", " + std::to_string(to);
    label += step == 1 ? ")" : ", " + std::to_string(step) + ")";
    return Value::sequence(Kind::Range, std::move(items), std::move(label), runtime.heap());
}

Result<Value> make_dict(Runtime& runtime, const Value&, const Bound& args) {
    Value::Pairs pairs;
    const Args& raw = args.raw();
    if (raw.positional.size() > 1)
        return fail(ErrorCode::InvalidArgument, "dict expected at most 1 argument, got %zu",
                    raw.positional.size());
    if (!raw.positional.empty() && raw.positional[0].is_dict()) {
        pairs = raw.positional[0].as_dict().pairs();
    } else if (!raw.positional.empty()) {
        TSR_TRY(const Value::Items items, runtime.walk(raw.positional[0]));
        for (const Value& item : items) {
            TSR_TRY(const Value::Items pair, runtime.walk(item));
            if (pair.size() != 2 || !pair[0].is_hashable())
                return fail(ErrorCode::InvalidArgument, "dict(): expected pairs of a key and a value");
            pairs.emplace_back(pair[0], pair[1]);
        }
    }
    for (const auto& [name, value] : raw.named) pairs.emplace_back(runtime.text(name), value);
    return Value::dict(std::move(pairs), runtime.heap());
}

Result<Value> make_namespace(Runtime& runtime, const Value& self, const Bound& args) {
    TSR_TRY(const Value members, make_dict(runtime, self, args));
    auto object = std::make_shared<NamespaceObject>(runtime.heap());
    for (const auto& [key, value] : members.as_dict().pairs()) {
        if (!key.is_text()) return fail(ErrorCode::InvalidArgument, "namespace(): expected names");
        object->assign(key.as_text(), value);
    }
    runtime.keep(object);
    return Value::object(std::move(object));
}

Result<Value> make_joiner(Runtime& runtime, const Value&, const Bound& args) {
    TSR_TRY(const std::string_view separator, text_argument(args, 0, "sep", ", "));
    return Value::object(std::make_shared<JoinerObject>(std::string(separator), runtime.heap()));
}

Result<Value> make_cycler(Runtime& runtime, const Value&, const Bound& args) {
    if (args.raw().positional.empty())
        return fail(ErrorCode::InvalidArgument, "at least one item has to be provided");
    auto object = std::make_shared<CyclerObject>(args.raw().positional, runtime.heap());
    runtime.keep(object);
    return Value::object(std::move(object));
}

Result<Value> raise_exception(Runtime& runtime, const Value&, const Bound& args) {
    TSR_TRY(std::string message, runtime.str(*args[0]));
    return runtime.raise(std::move(message));
}

Result<Value> strftime_now(Runtime& runtime, const Value&, const Bound& args) {
    TSR_TRY(const std::string_view format, text_argument(args, 0, "format", ""));
    return runtime.text(format_time(format, runtime.now()));
}

constexpr Builtin kGlobals[] = {
    {"range", "from to? step?", range},
    {"dict", "*", make_dict},
    {"namespace", "*", make_namespace},
    {"joiner", "sep?", make_joiner},
    {"cycler", "*", make_cycler},
    {"raise_exception", "message", raise_exception},
    {"strftime_now", "format", strftime_now},
};

tl::unexpected<Error> bad_argument(const Bound& args, size_t i, const char* name, const char* wanted) {
    return fail(ErrorCode::InvalidArgument, "%s: expected %s, found %s", name, wanted, args[i]->type_name());
}

}  // namespace

const Value& Bound::or_none(size_t i) const {
    static const Value none = Value::none();
    return slots_[i] ? *slots_[i] : none;
}

Result<Bound> bind(const Builtin& builtin, const Args& args) {
    Bound bound;
    bound.raw_ = &args;
    if (builtin.params == "*") return bound;
    const std::string name(builtin.name);
    size_t n_params = 0, n_named = 0;
    for (std::string_view rest = builtin.params; !rest.empty(); n_params++) {
        const size_t end = std::min(rest.find(' '), rest.size());
        std::string_view param = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        const bool optional = param.ends_with('?');
        if (optional) param.remove_suffix(1);
        if (n_params < args.positional.size()) bound.slots_[n_params] = &args.positional[n_params];
        for (const auto& [key, value] : args.named) {
            if (key != param) continue;
            if (bound.slots_[n_params])
                return fail(ErrorCode::InvalidArgument, "%s() got several values for argument '%s'",
                            name.c_str(), key.c_str());
            bound.slots_[n_params] = &value;
            n_named++;
        }
        if (!bound.slots_[n_params] && !optional)
            return fail(ErrorCode::InvalidArgument, "%s() is missing the argument '%s'", name.c_str(),
                        std::string(param).c_str());
    }
    if (args.positional.size() > n_params)
        return fail(ErrorCode::InvalidArgument, "%s() takes at most %zu arguments, found %zu", name.c_str(),
                    n_params, args.positional.size());
    if (n_named < args.named.size())
        return fail(ErrorCode::InvalidArgument, "%s() got an unexpected keyword argument; it takes: %s",
                    name.c_str(), builtin.params.empty() ? "none" : std::string(builtin.params).c_str());
    return bound;
}

const Builtin* find_row(BuiltinTable table, std::string_view name) {
    const auto it =
        std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
    return it == table.end() ? nullptr : &*it;
}

const Builtin* find_global(std::string_view name) { return find_row(kGlobals, name); }

const Builtin* find_filter(std::string_view name) {
    for (const BuiltinTable table :
         {text_filters(), sequence_filters(), selecting_filters(), number_filters()})
        if (const Builtin* row = find_row(table, name)) return row;
    return nullptr;
}

Result<std::string_view> text_argument(const Bound& args, size_t i, const char* name,
                                       std::string_view preset) {
    if (!args[i]) return preset;
    if (args[i]->is_text()) return std::string_view(args[i]->as_text());
    return bad_argument(args, i, name, "text");
}

Result<int64_t> int_argument(const Bound& args, size_t i, const char* name, int64_t preset) {
    if (!args[i]) return preset;
    if (!args[i]->is_integral()) return bad_argument(args, i, name, "an integer");
    const Integer value = args[i]->as_int();
    if (value > INT64_MAX || value < INT64_MIN) return bad_argument(args, i, name, "an integer of 64 bits");
    return static_cast<int64_t>(value);
}

bool flag_argument(const Bound& args, size_t i, bool preset) { return args[i] ? args[i]->truthy() : preset; }

}  // namespace tessera::jinja
