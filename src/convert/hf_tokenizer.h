#pragma once
// Converts the tokenizer of a Hugging Face folder to GGUF keys: tokens, merges or scores, types, special ids,
// bos and eos, and chat templates.
#include <optional>
#include <string>
#include <vector>

#include "ggml-like/gguf/writer.h"
#include "src/convert/hf_checkpoint.h"

namespace tessera::convert {

struct HfTokenizer {
    std::string model;  ///< "llama" or "gpt2"
    std::string pre;
    std::vector<std::string> tokens;
    std::vector<float> scores;        ///< of "llama": one per token
    std::vector<int32_t> types;       ///< one per token
    std::vector<std::string> merges;  ///< of "gpt2": "left right"
    bool add_bos = false, add_eos = false;
    std::optional<bool> add_space_prefix;  ///< of "llama"

    int32_t find(std::string_view token) const;  ///< its first id, or -1
};

/// Reads tokenizer.model, or else tokenizer.json; with them added_tokens.json and tokenizer_config.json. The
/// vocabulary is padded to `n_vocab` tokens, the rows of the embedding table. `pre` replaces the recognized
/// name, unless it is empty. Errors name the file and the place in it; NotFound if there is no tokenizer.
Result<HfTokenizer> read_hf_tokenizer(const HfCheckpoint& checkpoint, int64_t n_vocab,
                                      const std::string& pre);

/// Writes the tokenizer's keys, the special ids of tokenizer_config.json, config.json and
/// generation_config.json, and chat templates. Errors: an id outside the vocabulary, an invalid template.
Result<void> write_tokenizer(const HfTokenizer& tokenizer, const HfCheckpoint& checkpoint,
                             gguf::Writer& writer);

}  // namespace tessera::convert
