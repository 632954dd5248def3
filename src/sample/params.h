#pragma once
// Sampling parameters by name, from one table that also feeds flags, JSON fields and
// docs/reference/sampling.md.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::sample {

enum class ParamKind {
    Int,
    Float,
    Text,
    List,  ///< of strings: an array in JSON, one text on the command line (string_list.h)
};

/// One row of the table.
struct ParamInfo {
    std::string_view name{};  ///< the JSON field, e.g. "top_k"
    std::string_view flag{};  ///< the flag if it differs from the name, e.g. "--temp"
    ParamKind kind = ParamKind::Float;
    double default_value = 0;         ///< of Int and Float
    std::string_view default_text{};  ///< of Text and List
    double min = 0, max = 0;          ///< of Int and Float, both allowed
    std::string_view form{};          ///< of Text and List: how it is written, for help and errors
    Result<void> (*check)(std::string_view text) =
        nullptr;                   ///< of Text and List: the error of an invalid value
    std::string_view model_key{};  ///< X if a model file may set the default as `general.sampling.X`
    std::string_view help{};

    bool is_number() const { return kind == ParamKind::Int || kind == ParamKind::Float; }
};

/// The rows of all samplers in chain order, then those of the chain as a whole.
std::span<const ParamInfo> all_params();

/// The row with this name or flag spelling, or null.
const ParamInfo* find_param(std::string_view name);

/// "--top-k": the row's flag, or its name with dashes.
std::string flag_of(const ParamInfo& param);

/// The default as text: "0.8", "empty", or a list with its escapes.
std::string default_of(const ParamInfo& param);

/// A value for every row, always within its range.
class Params {
  public:
    Params();

    /// Sets one by name (or flag spelling). Errors (InvalidArgument): unknown name with the nearest known
    /// one, not a number of the row's kind, out of range; the message names the parameter, range and value
    /// found.
    Result<void> set(std::string_view name, std::string_view text);
    Result<void> set(std::string_view name, double value);
    /// For rows of kind List.
    Result<void> set(std::string_view name, std::span<const std::string> strings);

    /// Whether set() was called for this row, whatever the value.
    bool given(std::string_view name) const;
    /// A default from elsewhere, such as the model file: like set(), but does not override given values.
    template <class Value>
    Result<void> set_default(std::string_view name, Value value) {
        if (given(name)) return {};
        TSR_TRY_VOID(set(name, value));
        forget_given(name);
        return {};
    }

    /// The value of a row of kind Int or Float; the name must be one.
    double number(std::string_view name) const;
    /// The value of a row of kind Text or List; the name must be one.
    const std::string& text(std::string_view name) const;
    /// The strings of a row of kind List; the name must be one.
    std::vector<std::string> list(std::string_view name) const;

  private:
    struct Value {
        double number;
        std::string text;
        bool given;
    };
    void forget_given(std::string_view name);

    std::vector<Value> values_;  // parallel to all_params()
};

/// The table as markdown, one line per parameter. docs/reference/sampling.md holds a copy, which a test
/// compares.
std::string params_markdown();
/// The default order as the same page has it: names with arrows between.
std::string order_markdown();

}  // namespace tessera::sample
