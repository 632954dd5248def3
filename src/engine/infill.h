#pragma once
// Prompts for models that fill a gap in a text.
#include <span>
#include <string_view>
#include <vector>

#include "src/text/tokenizer.h"

namespace tessera::engine {

struct InfillFile {
    std::string_view name, text;
};

/// A text with a gap, and what stands around it. All of it is plain text: no control token is read out of it.
struct Infill {
    std::string_view prefix = {}, suffix = {};
    std::string_view middle = {};            ///< how the gap is filled so far
    std::span<const InfillFile> files = {};  ///< others of the same repository
    std::string_view name = {}, repo = {};   ///< of the file with the gap, of the repository; may be empty
    bool suffix_first = false;               ///< the order in which some models were trained
};

/// [bos] [repo, files] prefix-mark prefix suffix-mark suffix middle-mark middle. Errors: Unsupported where
/// the vocabulary lacks one of the three marks. Without marks for files these stand in front as plain text.
Result<std::vector<int32_t>> infill_tokens(const text::Tokenizer& tokenizer, const Infill& infill);

}  // namespace tessera::engine
