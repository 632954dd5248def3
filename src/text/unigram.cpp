// SentencePiece Unigram through libsentencepiece; the only source that includes it. A GGUF file holds the
// pieces but not the original model file, so the library's serialized form is rebuilt: entries that it would
// refuse are renamed, and the character map is validated, which the library does not do. Next: tokenizer.cpp
// (special tokens, which are removed before), spm.cpp (the other kind of SentencePiece).
#include <sentencepiece_processor.h>

#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <new>

#include "common/strings.h"
#include "common/utf8.h"
#include "src/text/scheme.h"
#include "src/text/text_index.h"

namespace tessera::text {

namespace {

constexpr const char* kCharsMapKey = "tokenizer.ggml.precompiled_charsmap";
constexpr size_t kMaxFragmentBytes = size_t{64} << 20;  // the library needs some 100 bytes of memory per byte
constexpr size_t kMaxUnigramPieceBytes = 4096;          // some versions of the library refuse longer pieces

// The field numbers of sentencepiece_model.proto that are used here.
enum class Field : uint32_t {
    ModelPieces = 1,
    ModelTrainerSpec = 2,
    ModelNormalizerSpec = 3,
    PieceText = 1,
    PieceScore = 2,
    PieceType = 3,
    TrainerModelType = 3,
    TrainerByteFallback = 35,
    NormalizerName = 1,
    NormalizerCharsMap = 2,
    NormalizerAddDummyPrefix = 3,
    NormalizerRemoveExtraWhitespaces = 4,
    NormalizerEscapeWhitespaces = 5,
};
constexpr uint64_t kModelTypeUnigram = 1;

/// The part of the protocol buffer wire format that is needed.
class ProtoWriter {
  public:
    void number(Field field, uint64_t value) {
        varint(static_cast<uint64_t>(field) << 3);
        varint(value);
    }
    void real(Field field, float value) {
        varint(static_cast<uint64_t>(field) << 3 | 5);
        const auto bits = std::bit_cast<std::array<char, sizeof(float)>>(value);
        bytes_.append(bits.data(), bits.size());
    }
    void text(Field field, std::string_view value) {
        varint(static_cast<uint64_t>(field) << 3 | 2);
        varint(value.size());
        bytes_ += value;
    }
    void message(Field field, const ProtoWriter& value) { text(field, value.bytes_); }
    const std::string& bytes() const { return bytes_; }

  private:
    void varint(uint64_t value) {
        for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
        bytes_ += static_cast<char>(value);
    }
    std::string bytes_;
};

/// Validates the map from characters to replacements: a length, a double-array trie of u32 units, and the
/// replacements, each terminated by a zero byte. Every step and value of the trie must stay in bounds.
Result<void> check_chars_map(std::string_view map) {
    const auto unit_at = [&](size_t i) {
        uint32_t unit;
        std::memcpy(&unit, map.data() + 4 * i, sizeof unit);
        return unit;
    };
    const size_t n_trie_bytes = map.size() >= 4 ? unit_at(0) : 0, n = n_trie_bytes / 4;
    if (map.size() < 4 + 1024 + 1 || n_trie_bytes % 1024 != 0 || n == 0 || n_trie_bytes > map.size() - 5 ||
        map.back() != '\0')
        return fail(
            ErrorCode::Malformed,
            "key '%s': expected a length, a trie of blocks of 1 KiB and replacements ending in a zero byte, "
            "found %zu bytes with a trie of %zu",
            kCharsMapKey, map.size(), n_trie_bytes);
    const size_t n_replacement_bytes = map.size() - 4 - n_trie_bytes;
    for (size_t i = 0; i < n; i++) {
        const uint32_t unit = unit_at(1 + i);
        constexpr uint32_t kIsValue = 1u << 31, kFarOffset = 1u << 9, kHasValue = 1u << 8;
        const size_t offset = size_t{unit >> 10} << (unit & kFarOffset ? 8 : 0);
        bool is_inside =
            unit & kIsValue ? (unit & ~kIsValue) < n_replacement_bytes : ((i ^ offset) | 0xFF) < n;
        // The flag of the unit that holds the value need not be set.
        if (is_inside && !(unit & kIsValue) && unit & kHasValue)
            is_inside = (unit_at(1 + (i ^ offset)) & ~kIsValue) < n_replacement_bytes;
        if (!is_inside)
            return fail(ErrorCode::Malformed,
                        "key '%s': expected trie unit %zu to point inside, found 0x%08x", kCharsMapKey, i,
                        unit);
    }
    return {};
}

Result<std::string_view> chars_map(const gguf::File& file) {
    const gguf::Value* value = file.find(kCharsMapKey);
    if (!value) return std::string_view();
    const bool is_bytes = value->is_array() && (value->element_type() == gguf::ValueType::U8 ||
                                                value->element_type() == gguf::ValueType::I8);
    if (!is_bytes)
        return fail(ErrorCode::Malformed, "key '%s': expected an array of bytes, found %s", kCharsMapKey,
                    value->to_string(2).c_str());
    const std::string_view map(reinterpret_cast<const char*>(value->raw().data()), value->raw().size());
    if (!map.empty()) TSR_TRY_VOID(check_chars_map(map));
    return map;
}

/// Calls the library and converts its exceptions and Status to an Error.
template <class Fn>
Result<void> guarded(const char* what, Fn&& fn) {
    try {
        const sentencepiece::util::Status status = fn();
        if (status.ok()) return {};
        return fail(ErrorCode::Internal, "SentencePiece failed to %s: %s", what, status.ToString().c_str());
    } catch (const std::bad_alloc&) {
        return fail(ErrorCode::OutOfMemory, "SentencePiece ran out of memory while it should %s", what);
    } catch (const std::exception& e) {
        return fail(ErrorCode::Internal, "SentencePiece failed to %s: %s", what, e.what());
    }
}

class UnigramScheme final : public SpaceSymbolScheme {
  public:
    explicit UnigramScheme(const Vocab& vocab) : SpaceSymbolScheme(vocab) {}

    Result<void> load(const gguf::File& file);

    Result<void> encode_fragment(std::string_view text, bool at_boundary,
                                 std::vector<int32_t>& ids) const override;

  private:
    Result<std::string> serialize(std::string_view map);
    void append_piece(ProtoWriter& model, std::string_view text, int32_t id, TokenType type);
    int32_t unknown_token() const;

    sentencepiece::SentencePieceProcessor processor_;
    std::vector<int32_t> ids_;  // ids of the library's pieces
    int32_t unknown_ = kNoToken;
    bool has_bytes_ = false;  // whether the vocabulary has byte tokens of its own
};

void UnigramScheme::append_piece(ProtoWriter& model, std::string_view text, int32_t id, TokenType type) {
    ProtoWriter piece;
    piece.text(Field::PieceText, text);
    piece.real(Field::PieceScore, vocab_.contains(id) ? vocab_.score(id) : 0.0f);
    piece.number(Field::PieceType, static_cast<uint64_t>(type));  // both enumerations have the same values
    model.message(Field::ModelPieces, piece);
    ids_.push_back(id);
}

int32_t UnigramScheme::unknown_token() const {
    const int32_t named = vocab_.special().unk;
    if (named != kNoToken && vocab_.type(named) == TokenType::Unknown) return named;
    for (int32_t id = 0; id < vocab_.size(); id++)
        if (vocab_.type(id) == TokenType::Unknown) return id;
    return kNoToken;
}

/// Entries that must never match (duplicates, special tokens, and those the library cannot hold) get a name
/// that no text contains (0xFF never occurs in UTF-8) and an unused type.
Result<std::string> UnigramScheme::serialize(std::string_view map) {
    unknown_ = unknown_token();
    if (unknown_ == kNoToken)
        return fail(
            ErrorCode::Malformed,
            "key 'tokenizer.ggml.token_type': expected a token of type 2, the unknown token of a Unigram "
            "vocabulary, found none");
    ProtoWriter model;
    std::array<int32_t, 256> byte_ids;
    byte_ids.fill(kNoToken);
    TextIndex seen;
    seen.reserve(static_cast<size_t>(vocab_.size()));
    for (int32_t id = 0; id < vocab_.size(); id++) {
        const std::string_view text = vocab_.text(id);
        const TokenType type = vocab_.type(id);
        if (type == TokenType::Byte && byte_ids[vocab_.byte_of(id)] == kNoToken) {
            has_bytes_ = true;
            byte_ids[vocab_.byte_of(id)] = id;
            append_piece(model, strf("<0x%02X>", static_cast<unsigned>(vocab_.byte_of(id))), id, type);
            continue;
        }
        const bool is_piece = (type == TokenType::Normal || type == TokenType::Unused) && !text.empty() &&
                              text.size() <= kMaxUnigramPieceBytes && utf8::is_valid(text) &&
                              text.find('\0') == text.npos && seen.find(text) == kNoToken;
        if (is_piece) seen.add(text, id);
        append_piece(model, is_piece ? std::string(text) : strf("\xFF%d", id), id,
                     is_piece         ? type
                     : id == unknown_ ? TokenType::Unknown
                                      : TokenType::Control);
    }
    // Without byte tokens the library takes quadratic time for a run of unknown characters. So byte tokens
    // are always added, and those that stand for the unknown token are recorded.
    for (unsigned byte = 0; byte < 256; byte++)
        if (byte_ids[byte] == kNoToken)
            append_piece(model, strf("<0x%02X>", byte), unknown_, TokenType::Byte);
    ProtoWriter trainer, normalizer;
    trainer.number(Field::TrainerModelType, kModelTypeUnigram);
    trainer.number(Field::TrainerByteFallback, 1);
    if (map.empty())
        normalizer.text(Field::NormalizerName, "identity");
    else
        normalizer.text(Field::NormalizerCharsMap, map);
    normalizer.number(Field::NormalizerAddDummyPrefix, vocab_.add_space_prefix());
    normalizer.number(Field::NormalizerRemoveExtraWhitespaces, vocab_.remove_extra_whitespaces());
    normalizer.number(Field::NormalizerEscapeWhitespaces, 1);
    model.message(Field::ModelTrainerSpec, trainer);
    model.message(Field::ModelNormalizerSpec, normalizer);
    return model.bytes();
}

Result<void> UnigramScheme::load(const gguf::File& file) {
    TSR_TRY(const std::string_view map, chars_map(file));
    TSR_TRY(const std::string serialized, serialize(map));
    return guarded("load the vocabulary", [&] { return processor_.LoadFromSerializedProto(serialized); });
}

/// Bytes that are not UTF-8 count as U+FFFD.
Result<void> UnigramScheme::encode_fragment(std::string_view text, bool, std::vector<int32_t>& ids) const {
    if (text.size() > kMaxFragmentBytes)
        return fail(ErrorCode::InvalidArgument,
                    "text to tokenize: expected at most %s between special tokens, found %s",
                    format_bytes(kMaxFragmentBytes).c_str(), format_bytes(text.size()).c_str());
    std::vector<int> found;
    TSR_TRY_VOID(guarded("encode text", [&] { return processor_.Encode(text, &found); }));
    const size_t first = ids.size();
    for (const int piece : found) {
        const int32_t id = ids_[static_cast<size_t>(piece)];
        // Adjacent unknown characters are one token.
        if (id == unknown_ && !has_bytes_ && ids.size() > first && ids.back() == unknown_) continue;
        ids.push_back(id);
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<Scheme>> create_unigram_scheme(const Vocab& vocab, const gguf::File& file) {
    auto scheme = std::make_unique<UnigramScheme>(vocab);
    TSR_TRY_VOID(scheme->load(file));
    return scheme;
}

}  // namespace tessera::text
