#pragma once
// What /set changes: how answers are made and shown.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/expected.h"
#include "include/tessera.hpp"

namespace tessera::repl {

/// One thread at a time.
class Settings {
  public:
    int64_t n_predict = -1;       ///< tokens of an answer; -1: until the model ends it
    bool shows_reasoning = true;  ///< while it comes
    bool shows_stats = false;     ///< a line below each answer
    int think = TSR_DEFAULT;      ///< what the template is told of reasoning

    /// Sets a value by name; "default" takes it back. Errors name the value, its range, or the nearest name.
    Result<void> set(std::string_view name, std::string_view value);

    /// The sampling parameters that were set.
    const std::map<std::string, std::string>& sampling() const { return sampling_; }

    /// What differs from the defaults, as a conversation's file keeps it.
    std::map<std::string, std::string> changed() const;
    /// These, and defaults for all else. On an error nothing has changed.
    Result<void> replace(const std::map<std::string, std::string>& values);

    /// A line for each setting with its value and meaning; defaults of sampling are those of the model.
    std::string table(const tessera_api::Model& model) const;

  private:
    std::map<std::string, std::string> sampling_;
};

}  // namespace tessera::repl
