#pragma once
// The path of a command's model file, or of the default model.
#include <string>

#include "common/expected.h"

namespace tessera {

/// `given`; if that is empty, the file that TESSERA_MODEL names, or else the bundled demo model, with a note.
/// Errors: no such file, with a hint; a folder; NotFound with the paths that were tried.
Result<std::string> model_path(const std::string& given);

}  // namespace tessera
