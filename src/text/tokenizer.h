#pragma once
// Converts text to token ids and back, with the vocabulary of a GGUF file.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"
#include "src/text/special_matcher.h"
#include "src/text/vocab.h"

namespace tessera::text {

class Scheme;

struct EncodeOptions {
    bool add_special = true;     ///< add bos and eos if the model wants them
    bool parse_special = false;  ///< turn spellings of control tokens in the text into these tokens
};

struct DecodeOptions {
    /// False if the ids continue an earlier text: a leading space is kept.
    bool at_text_start = true;
    /// Whether control and unknown tokens appear by their spelling; otherwise they are omitted.
    bool show_special = false;
};

/// Immutable and self-contained: the File may be destroyed. Const members may be called from many threads.
class Tokenizer {
  public:
    /// Errors: those of Vocab::load; a `tokenizer.ggml.model` that is not supported; a vocabulary that its
    /// scheme cannot use.
    static Result<std::shared_ptr<const Tokenizer>> load(const gguf::File& file);

    ~Tokenizer();
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    /// Any bytes are accepted; invalid UTF-8 becomes byte tokens if the vocabulary has them. Every id is
    /// valid. Errors: the scheme's library failed (out of memory, or its own bug).
    Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;

    /// The bytes of a token inside running text: " the" with its space, one raw byte, a special token's
    /// spelling. Empty for an id outside the vocabulary. Valid as long as the Tokenizer. O(1).
    std::string_view token_bytes(int32_t id) const;

    /// Valid UTF-8: the text of a Detokenizer with the same options for these ids, flushed. Ids outside the
    /// vocabulary are ignored.
    std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

    const Vocab& vocab() const { return vocab_; }

  private:
    explicit Tokenizer(Vocab vocab);

    Vocab vocab_;
    SpecialMatcher specials_;
    std::unique_ptr<const Scheme> scheme_;
    std::string bytes_;             // of all tokens, concatenated
    std::vector<size_t> byte_end_;  // [n_tokens] end of each token in bytes_
};

}  // namespace tessera::text
