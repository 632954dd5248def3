#pragma once
// A SentencePiece model file as data: pieces with scores and kinds, and the settings that a vocabulary keeps.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/expected.h"

namespace tessera::convert {

struct SentencePieceModel {
    enum class Kind : uint8_t { Unigram = 1, Bpe = 2, Word = 3, Char = 4 };
    struct Piece {
        std::string text;
        float score = 0;
        int32_t type = 1;  ///< as in tokenizer.ggml.token_type
    };

    Kind kind = Kind::Unigram;
    std::vector<Piece> pieces;
    int64_t unk = 0, bos = 1, eos = 2, pad = -1;  ///< ids; -1: none
    bool add_dummy_prefix = true, remove_extra_whitespaces = true;
};

/// Format: protocol buffers, message ModelProto of sentencepiece_model.proto. Errors say at which byte what
/// was expected: truncated fields, lengths beyond the end, no pieces, kinds outside 1..6.
Result<SentencePieceModel> parse_sentencepiece(std::span<const std::byte> bytes);

}  // namespace tessera::convert
