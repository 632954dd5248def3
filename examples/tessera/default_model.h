#pragma once
// Which file a command works with where its MODEL was left out.
#include <string>

#include "common/expected.h"

namespace tessera {

/// `given`, or where that is empty the file that TESSERA_MODEL names, or else the small model that comes with
/// the program; a note tells which. Errors: NotFound with the paths that were tried.
Result<std::string> model_path(const std::string& given);

}  // namespace tessera
