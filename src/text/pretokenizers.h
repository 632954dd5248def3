#pragma once
// The pre-tokenizers of byte-level BPE vocabularies, one row for each name in `tokenizer.ggml.pre`; internal
// to src/text. Adding one: docs/reference/tokenizers.md.
#include <span>
#include <string_view>

namespace tessera::text {

struct PreTokenizer {
    std::string_view name;
    std::span<const std::string_view> patterns;  ///< Splitter::create
    /// A piece that is a token as a whole becomes it, whether or not the merges lead there.
    bool whole_words = false;
    /// Whether texts begin with bos where `tokenizer.ggml.add_bos_token` is absent.
    bool add_bos = false;
    /// Whether texts end with sep where `tokenizer.ggml.add_sep_token` is absent.
    bool add_sep = false;
    /// Where the file lists no merges: a pair merges if it spells a token, the lowest id first.
    bool ranks_are_ids = false;
};

std::span<const PreTokenizer> pre_tokenizers();

/// Null for a name that is in no row.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

}  // namespace tessera::text
