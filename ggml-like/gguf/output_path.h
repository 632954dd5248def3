#pragma once
// Checks of output paths.
#include <string>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"

namespace tessera::gguf {

/// The target of `out`, with links resolved. Errors: it is one of the input files, or exists and is no
/// regular file.
Result<std::string> resolve_output(const std::string& out, const File& in);

}  // namespace tessera::gguf
