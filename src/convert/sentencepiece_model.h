#pragma once
// The content of a SentencePiece model file: pieces with scores and types, and the settings of the
// vocabulary.
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

/// Format: protocol buffers, message ModelProto of sentencepiece_model.proto. Errors name the byte and the
/// expected content: truncated fields, lengths beyond the end, no pieces, types outside 1..6.
Result<SentencePieceModel> parse_sentencepiece(std::span<const std::byte> bytes);

}  // namespace tessera::convert
