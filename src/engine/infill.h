#pragma once
// Prompts for infill (fill-in-the-middle) models.
#include <span>
#include <string_view>
#include <vector>

#include "src/text/tokenizer.h"

namespace tessera::engine {

struct InfillFile {
    std::string_view name, text;
};

/// The text around a gap. All of it is plain text: special tokens in it are not parsed.
struct Infill {
    std::string_view prefix = {}, suffix = {};
    std::string_view middle = {};            ///< beginning of the text in the gap
    std::span<const InfillFile> files = {};  ///< other files of the repository
    std::string_view name = {},
                     repo = {};  ///< names of the file with the gap and of the repository; may be empty
    bool suffix_first = false;   ///< suffix before prefix, as some models were trained
};

/// [bos] [repo, files] prefix-token prefix suffix-token suffix middle-token middle. If the vocabulary has no
/// tokens for files, these come first as plain text. Errors: Unsupported if it lacks one of the three infill
/// tokens.
Result<std::vector<int32_t>> infill_tokens(const text::Tokenizer& tokenizer, const Infill& infill);

}  // namespace tessera::engine
