#pragma once
// Model files of libsentencepiece, as far as tests need to write and read them: protocol buffers' wire format
// with the field numbers of sentencepiece_model.proto.
#include <sentencepiece_processor.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/text/memory_gguf.h"

namespace tessera::test {

class ProtoWriter {
  public:
    ProtoWriter& number(uint32_t field, uint64_t value) {
        varint(uint64_t{field} << 3);
        varint(value);
        return *this;
    }
    ProtoWriter& real(uint32_t field, float value) {
        varint(uint64_t{field} << 3 | 5);
        const auto bits = std::bit_cast<std::array<char, sizeof(float)>>(value);
        bytes_.append(bits.data(), bits.size());
        return *this;
    }
    ProtoWriter& text(uint32_t field, std::string_view value) {
        varint(uint64_t{field} << 3 | 2);
        varint(value.size());
        bytes_ += value;
        return *this;
    }
    const std::string& bytes() const { return bytes_; }

  private:
    void varint(uint64_t value) {
        for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
        bytes_ += static_cast<char>(value);
    }
    std::string bytes_;
};

/// A BPE model with these pieces, no normalization, and a space in front of the text.
inline std::string bpe_model(const TokenList& list, bool has_bytes) {
    ProtoWriter model;
    for (size_t i = 0; i < list.texts.size(); i++) {
        ProtoWriter piece;
        piece.text(1, list.texts[i]).real(2, list.scores[i]).number(3, static_cast<uint64_t>(list.types[i]));
        model.text(1, piece.bytes());
    }
    model.text(2, ProtoWriter().number(3, 2).number(35, has_bytes).bytes());
    model.text(3, ProtoWriter().text(1, "identity").number(3, 1).number(4, 0).number(5, 1).bytes());
    return model.bytes();
}

/// The bytes of the first field with this number in a message; empty when there is none.
inline std::string_view proto_field(std::string_view message, uint32_t wanted) {
    const auto varint = [&] {
        uint64_t value = 0;
        for (unsigned shift = 0; !message.empty(); shift += 7) {
            const auto byte = static_cast<uint8_t>(message.front());
            message.remove_prefix(1);
            value |= uint64_t{byte & 0x7Fu} << shift;
            if (byte < 0x80) break;
        }
        return value;
    };
    while (!message.empty()) {
        const uint64_t tag = varint();
        const uint64_t n = (tag & 7) == 2 ? varint() : (tag & 7) == 5 ? 4 : 0;
        if ((tag & 7) == 0) varint();
        const std::string_view body = message.substr(0, n);
        message.remove_prefix(body.size());
        if (tag >> 3 == wanted) return body;
    }
    return {};
}

/// The vocabulary of a loaded model as a GGUF file would have it.
inline TokenList pieces_of(const sentencepiece::SentencePieceProcessor& model) {
    TokenList list;
    for (int id = 0; id < model.GetPieceSize(); id++)
        list.add(model.IdToPiece(id), model.GetScore(id),
                 model.IsUnknown(id)   ? 2
                 : model.IsControl(id) ? 3
                 : model.IsUnused(id)  ? 5
                 : model.IsByte(id)    ? 6
                                       : 1);
    return list;
}

}  // namespace tessera::test
