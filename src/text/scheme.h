#pragma once
// The interface of one kind of tokenizer; internal to src/text. Tokenizer implements the common parts:
// special tokens, bos and eos, token bytes, decoding.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"
#include "src/text/space_symbol.h"
#include "src/text/vocab.h"

namespace tessera::text {

/// Immutable after creation; const members are called from many threads. Keeps a reference to its Vocab.
class Scheme {
  public:
    virtual ~Scheme() = default;

    /// Appends the ids of a non-empty text without special tokens; any bytes. `at_boundary`: it is at the
    /// start of the text or follows a special token.
    virtual Result<void> encode_fragment(std::string_view text, bool at_boundary,
                                         std::vector<int32_t>& ids) const = 0;

    /// Appends the bytes of a Normal or Unused token inside running text.
    virtual void append_bytes(int32_t id, std::string& out) const = 0;
};

/// Schemes whose vocabularies spell a space as U+2581.
class SpaceSymbolScheme : public Scheme {
  public:
    void append_bytes(int32_t id, std::string& out) const override {
        append_with_spaces(vocab_.text(id), out);
    }

  protected:
    explicit SpaceSymbolScheme(const Vocab& vocab) : vocab_(vocab) {}

    const Vocab& vocab_;
};

/// SentencePiece BPE with byte fallback: `tokenizer.ggml.model` "llama".
Result<std::unique_ptr<Scheme>> create_spm_scheme(const Vocab& vocab, const gguf::File& file);
/// Byte-level BPE with the pre-tokenizer that `tokenizer.ggml.pre` names: "gpt2".
Result<std::unique_ptr<Scheme>> create_bpe_scheme(const Vocab& vocab, const gguf::File& file);
/// SentencePiece Unigram: "t5".
Result<std::unique_ptr<Scheme>> create_unigram_scheme(const Vocab& vocab, const gguf::File& file);
/// WordPiece over lower-cased text: "bert".
Result<std::unique_ptr<Scheme>> create_wordpiece_scheme(const Vocab& vocab, const gguf::File& file);

}  // namespace tessera::text
