#pragma once
// The tables of filters, tests, methods and global functions: a row is a name, its parameters and a function.
#include <array>
#include <span>
#include <string_view>

#include "src/text/jinja/object.h"

namespace tessera::jinja {

/// Arguments in the order of a row's parameters; those not given are null.
class Bound {
  public:
    static constexpr size_t kMax = 6;

    const Value* operator[](size_t i) const { return slots_[i]; }
    const Value& or_none(size_t i) const;
    /// All of them, for rows that take any.
    const Args& raw() const { return *raw_; }

  private:
    friend Result<Bound> bind(const struct Builtin& builtin, const Args& args);
    std::array<const Value*, kMax> slots_{};
    const Args* raw_ = nullptr;
};

/// `params`: names in order, with a `?` after optional ones; "*" for any arguments. `function` gets the value
/// that is filtered, tested or whose method is called (none for globals).
struct Builtin {
    std::string_view name;
    std::string_view params;
    Result<Value> (*function)(Runtime& runtime, const Value& self, const Bound& args);
};

/// Errors: missing, unknown, surplus and repeated arguments. The result refers to `args`.
Result<Bound> bind(const Builtin& builtin, const Args& args);

using BuiltinTable = std::span<const Builtin>;

/// Null if there is no such row.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
/// A method of a value's type.
const Builtin* find_method(const Value& self, std::string_view name);
/// Whether this is the name of a Python method that modifies its object, which is refused.
bool is_mutating_method(const Value& self, std::string_view name);

BuiltinTable text_filters();
BuiltinTable number_filters();
BuiltinTable sequence_filters();
BuiltinTable selecting_filters();

const Builtin* find_row(BuiltinTable table, std::string_view name);

/// A callable value of a row: a global function, or a method bound to its object.
std::shared_ptr<Object> make_function(const Builtin& builtin, Value self, Heap* heap);

// Arguments of a type, or an error that names the parameter.
Result<std::string_view> text_argument(const Bound& args, size_t i, const char* name,
                                       std::string_view preset);
Result<int64_t> int_argument(const Bound& args, size_t i, const char* name, int64_t preset);
bool flag_argument(const Bound& args, size_t i, bool preset);

}  // namespace tessera::jinja
