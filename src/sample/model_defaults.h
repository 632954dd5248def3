#pragma once
// Sampling defaults that a model file brings along.
#include <string>
#include <vector>

#include "ggml-like/gguf/file.h"
#include "src/sample/params.h"

namespace tessera::sample {

/// Takes over `general.sampling.*` for all parameters that were not given: the command line and the request
/// win over the model file, and that wins over our defaults. Keys are those of the rows
/// (ParamInfo::model_key). A value of the wrong kind or out of range is left out with a warning. Returns the
/// names of those taken over.
std::vector<std::string> apply_model_defaults(const gguf::File& file, Params& params);

}  // namespace tessera::sample
