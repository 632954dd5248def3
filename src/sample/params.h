#pragma once
// Sampling parameters by name, from one table that also feeds flags, JSON fields and docs/sampling.md.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::sample {

enum class ParamKind { Int, Float, Text };

/// One row of the table.
struct ParamInfo {
    std::string_view name{};  ///< the JSON field, e.g. "top_k"
    std::string_view flag{};  ///< the spelling of the flag where it is not the name's, e.g. "--temp"
    ParamKind kind = ParamKind::Float;
    double default_value = 0;  ///< of Int and Float; Text is empty by default
    double min = 0, max = 0;   ///< of Int and Float, both allowed
    std::string_view form{};   ///< of Text: how it is written, for help and errors
    Result<void> (*check)(std::string_view text) = nullptr;  ///< of Text: says what is wrong with a value
    std::string_view help{};
};

/// The rows of all samplers in chain order, then "samplers".
std::span<const ParamInfo> all_params();

/// The row with this name or flag spelling, or null.
const ParamInfo* find_param(std::string_view name);

/// "--top-k": the row's flag, or its name with dashes.
std::string flag_of(const ParamInfo& param);

/// A value for every row, each within its range at all times.
class Params {
  public:
    Params();

    /// Sets one by name (or flag spelling). Errors (InvalidArgument): unknown name with the nearest known
    /// one, not a number of the row's kind, out of range; the message names the parameter, range and value
    /// found.
    Result<void> set(std::string_view name, std::string_view text);
    Result<void> set(std::string_view name, double value);

    /// The value of a row of kind Int or Float; the name must be one.
    double number(std::string_view name) const;
    /// The value of a row of kind Text; the name must be one.
    const std::string& text(std::string_view name) const;

  private:
    struct Value {
        double number;
        std::string text;
    };
    std::vector<Value> values_;  // parallel to all_params()
};

/// The table as markdown: one line a parameter. docs/sampling.md holds a copy, which a test compares.
std::string params_markdown();

}  // namespace tessera::sample
