#pragma once
// The sampling parameters as options: one for each row of their table.
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/tessera/options.h"

namespace tessera {

/// Declares them in a group of their own. `set` gets the name of the parameter, not of the option, and the
/// text.
void declare_sampling(Options& options,
                      const std::function<Result<void>(std::string_view name, const std::string& text)>& set);

/// The names of the parameters, each with its option ("temperature", "--temp").
std::vector<std::pair<std::string, std::string>> sampling_names();

}  // namespace tessera
