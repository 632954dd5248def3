// Reads the part of the protocol buffer wire format that SentencePiece models use; unknown fields are
// skipped. src/text/spm.cpp encodes text with such a model.
#include "src/convert/sentencepiece_model.h"

#include <bit>
#include <cmath>

#include "common/bytes.h"

namespace tessera::convert {

namespace {

struct Field {
    uint64_t number = 0;
    uint64_t value = 0;     // value of varints and of fixed-width fields
    std::string_view body;  // body of messages, strings and bytes
};

/// Fields of one message, in order.
class Message {
  public:
    Message(std::string_view bytes, size_t offset)
        : reader_(std::as_bytes(std::span(bytes))), offset_(offset) {}

    bool at_end() const { return reader_.remaining() == 0; }
    size_t position() const { return offset_ + reader_.pos(); }

    Result<Field> next() {
        enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
        const size_t at = position();
        const uint64_t tag = varint();
        Field field{.number = tag >> 3, .value = 0, .body = {}};
        switch (tag & 7) {
            case kVarint:
                field.value = varint();
                break;
            case kFixed64:
                field.value = reader_.get<uint64_t>();
                break;
            case kFixed32:
                field.value = reader_.get<uint32_t>();
                break;
            case kBytes:
                field.body = reader_.view(varint());
                break;
            default:
                ok_ = false;
        }
        if (!ok_ || !reader_.ok() || field.number == 0)
            return fail(ErrorCode::Malformed, "not a SentencePiece model: expected a field at byte %zu", at);
        return field;
    }

  private:
    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const auto byte = reader_.get<uint8_t>();
            value |= static_cast<uint64_t>(byte & 127) << shift;
            if (byte < 128) return value;
        }
        ok_ = false;
        return 0;
    }

    ByteReader reader_;
    size_t offset_;
    bool ok_ = true;
};

/// Calls `take` with each field of a message.
template <class Take>
Result<void> each_field(std::string_view bytes, size_t offset, const Take& take) {
    for (Message message(bytes, offset); !message.at_end();) {
        TSR_TRY(const Field field, message.next());
        TSR_TRY_VOID(take(field));
    }
    return {};
}

/// Offset of a field's body in the file, for error messages.
size_t offset_of(std::string_view body, std::span<const std::byte> bytes) {
    return body.empty() ? 0
                        : static_cast<size_t>(reinterpret_cast<const std::byte*>(body.data()) - bytes.data());
}

int64_t as_int32(uint64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(value)); }

}  // namespace

Result<SentencePieceModel> parse_sentencepiece(std::span<const std::byte> bytes) {
    SentencePieceModel model;
    const auto read_piece = [&](const Field& outer) -> Result<void> {
        SentencePieceModel::Piece piece;
        TSR_TRY_VOID(
            each_field(outer.body, offset_of(outer.body, bytes), [&](const Field& field) -> Result<void> {
                if (field.number == 1) piece.text = field.body;
                if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
                if (field.number == 3) {
                    if (field.value < 1 || field.value > 6)
                        return fail(ErrorCode::Malformed,
                                    "piece %zu: expected a type from 1 to 6, found %llu", model.pieces.size(),
                                    static_cast<unsigned long long>(field.value));
                    piece.type = static_cast<int32_t>(field.value);
                }
                return {};
            }));
        if (!std::isfinite(piece.score))
            return fail(ErrorCode::Malformed, "piece %zu: expected a score, found no number",
                        model.pieces.size());
        model.pieces.push_back(std::move(piece));
        return {};
    };
    const auto read_trainer = [&](const Field& field) -> Result<void> {
        if (field.number == 3) {
            if (field.value < 1 || field.value > 4)
                return fail(ErrorCode::Malformed, "model_type: expected 1 to 4, found %llu",
                            static_cast<unsigned long long>(field.value));
            model.kind = static_cast<SentencePieceModel::Kind>(field.value);
        }
        if (field.number == 40) model.unk = as_int32(field.value);
        if (field.number == 41) model.bos = as_int32(field.value);
        if (field.number == 42) model.eos = as_int32(field.value);
        if (field.number == 43) model.pad = as_int32(field.value);
        return {};
    };
    const auto read_normalizer = [&](const Field& field) -> Result<void> {
        if (field.number == 3) model.add_dummy_prefix = field.value != 0;
        if (field.number == 4) model.remove_extra_whitespaces = field.value != 0;
        return {};
    };
    const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    TSR_TRY_VOID(each_field(all, 0, [&](const Field& field) -> Result<void> {
        if (field.number == 1) return read_piece(field);
        if (field.number == 2) return each_field(field.body, offset_of(field.body, bytes), read_trainer);
        if (field.number == 3) return each_field(field.body, offset_of(field.body, bytes), read_normalizer);
        return {};
    }));
    if (model.pieces.empty())
        return fail(ErrorCode::Malformed, "not a SentencePiece model: expected pieces, found none");
    return model;
}

}  // namespace tessera::convert
