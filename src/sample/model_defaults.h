#pragma once
// Sampling defaults stored in a model file.
#include <string>
#include <vector>

#include "ggml-like/gguf/file.h"
#include "src/sample/params.h"

namespace tessera::sample {

/// Sets all parameters that were not given from `general.sampling.*`: the command line and the request
/// override the model file, which overrides the built-in defaults. Keys are those of the rows
/// (ParamInfo::model_key). A value of the wrong kind or out of range is ignored with a warning. Returns the
/// names of the parameters set.
std::vector<std::string> apply_model_defaults(const gguf::File& file, Params& params);

}  // namespace tessera::sample
