#pragma once
// Recognizes the pre-tokenizer of a tokenizer.json.
#include <string>

#include "common/expected.h"
#include "common/json.h"

namespace tessera::convert {

/// The name for `tokenizer.ggml.pre` of the byte-level BPE tokenizer in a tokenizer.json. Unsupported:
/// unknown rules; the error lists them and tells how to choose a name anyway.
Result<std::string> recognise_pre_tokenizer(const JsonValue& tokenizer);

}  // namespace tessera::convert
