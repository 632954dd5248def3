#pragma once
// Text to token ids and back, for the vocabulary of a GGUF file.
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
    bool add_special = true;     ///< bos in front and eos behind, where the model wants them
    bool parse_special = false;  ///< the spelling of a control token in the text becomes that token
};

struct DecodeOptions {
    /// False where the ids continue an earlier text: then a leading space is kept.
    bool at_text_start = true;
    /// True: control and unknown tokens appear by their spelling. False: they are left out.
    bool show_special = false;
};

/// Immutable and self-contained (the File may go); const members may be called from many threads.
class Tokenizer {
  public:
    /// Errors: those of Vocab::load; a `tokenizer.ggml.model` that is not supported; a vocabulary that its
    /// scheme cannot work with.
    static Result<std::shared_ptr<const Tokenizer>> load(const gguf::File& file);

    ~Tokenizer();
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    /// Any bytes are accepted; invalid UTF-8 becomes byte tokens where the vocabulary has them. Every id is
    /// valid. Errors: the scheme's library failed (out of memory, or its own bug).
    Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;

    /// The bytes a token stands for inside running text: " the" with its space, one raw byte, a special
    /// token's spelling. Empty for an id outside the vocabulary. Valid while the Tokenizer lives. O(1).
    std::string_view token_bytes(int32_t id) const;

    /// Valid UTF-8: what a Detokenizer with the same options prints for these ids, flushed. Ids outside the
    /// vocabulary are left out.
    std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

    const Vocab& vocab() const { return vocab_; }

  private:
    explicit Tokenizer(Vocab vocab);

    Vocab vocab_;
    SpecialMatcher specials_;
    std::unique_ptr<const Scheme> scheme_;
    std::string bytes_;             // of all tokens, one after another
    std::vector<size_t> byte_end_;  // [n_tokens] where each ends in bytes_
};

}  // namespace tessera::text
