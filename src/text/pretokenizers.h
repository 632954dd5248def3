#pragma once
// The pre-tokenizers of byte-level BPE vocabularies, one row for each name in `tokenizer.ggml.pre`; internal
// to src/text. Adding one: docs/reference/tokenizers.md.
#include <span>
#include <string_view>

namespace tessera::text {

struct PreTokenizer {
    std::string_view name;
    std::span<const std::string_view> patterns;  ///< Splitter::create
    /// A piece that is a token becomes that token, even if the merges do not produce it.
    bool whole_words = false;
    /// Whether texts begin with bos if `tokenizer.ggml.add_bos_token` is absent.
    bool add_bos = false;
    /// Whether texts end with sep if `tokenizer.ggml.add_sep_token` is absent.
    bool add_sep = false;
    /// If the file lists no merges: a pair merges if it spells a token, the lowest id first.
    bool ranks_are_ids = false;
};

std::span<const PreTokenizer> pre_tokenizers();

/// Null for an unknown name.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

}  // namespace tessera::text
