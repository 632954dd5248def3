#pragma once
// The settings that /set changes: how answers are generated and shown.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "include/tessera.hpp"

namespace tessera::repl {

/// The form that answers are constrained to.
struct AnswerFormat {
    std::optional<tsr_grammar_kind> kind;  ///< nothing: any text
    std::string text;                      ///< the schema, grammar or regular expression

    /// "text", "json", "schema TEXT", "grammar TEXT" or "regex TEXT".
    std::string name() const;
};

/// One thread at a time.
class Settings {
  public:
    int64_t n_predict = -1;       ///< most tokens of an answer; -1: until the model ends it
    bool shows_reasoning = true;  ///< while it is generated
    bool shows_stats = false;     ///< a line of figures after each answer
    bool wraps = true;            ///< answers break between words, on a terminal
    int think = TSR_DEFAULT;      ///< what the template is told about reasoning
    AnswerFormat format;
    bool compact_json = false;  ///< no white space in constrained JSON

    /// Sets a value by name; "default" resets it. Names may be spelled as the options are ("temp", "top-k")
    /// or as in llama.cpp and ollama ("num_predict"). Errors name the value and its range, or the nearest
    /// name.
    Result<void> set(std::string_view name, std::string_view value);

    /// The sampling parameters that were set.
    const std::map<std::string, std::string>& sampling() const { return sampling_; }
    /// The seed, if it was set to a fixed one.
    std::optional<int64_t> seed() const;

    /// The settings that differ from the defaults, as a conversation's file stores them.
    std::map<std::string, std::string> changed() const;
    /// Takes over these, and defaults for all others. On an error nothing has changed.
    Result<void> replace(const std::map<std::string, std::string>& values);

    /// One row per setting with value and meaning, in groups. `width`: columns of the terminal; 0: rows do
    /// not wrap. Defaults of sampling are those of the model.
    std::string table(const tessera_api::Model& model, size_t width) const;
    /// The row of one setting. Errors as in set().
    Result<std::string> table_row(const tessera_api::Model& model, std::string_view name, size_t width) const;

    /// All names, and the values that a setting is chosen from; empty where it takes a number or a text.
    static std::vector<std::string> names();
    static std::vector<std::string> values(std::string_view name);

  private:
    std::map<std::string, std::string> sampling_;
};

}  // namespace tessera::repl
