#pragma once
// Names of files that are to be written.
#include <string>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"

namespace tessera::gguf {

/// The file that `out` stands for, through links. Errors: it is the input itself, or there and no file.
Result<std::string> resolve_output(const std::string& out, const File& in);

}  // namespace tessera::gguf
