#pragma once
// From the rules by which a tokenizer.json cuts text to the name of a pre-tokenizer of ours.
#include <string>

#include "common/expected.h"
#include "common/json.h"

namespace tessera::convert {

/// The name for `tokenizer.ggml.pre` of the byte-level BPE tokenizer in a tokenizer.json. Unsupported: rules
/// that are none of ours; the error says what they are, and how to choose a name all the same.
Result<std::string> recognise_pre_tokenizer(const JsonValue& tokenizer);

}  // namespace tessera::convert
