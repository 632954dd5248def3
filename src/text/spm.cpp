// SentencePiece BPE vocabularies through libsentencepiece; the only source that includes it. A GGUF file
// holds the pieces but not the model file they came from, so the library's serialized form is written anew:
// with identity normalization (this file prepares the text itself) and with every entry the library would
// refuse renamed. Next: safe_cuts.h (why long texts may be cut), tokenizer.cpp (special tokens, which never
// get here).
#include <sentencepiece_processor.h>

#include <array>
#include <bit>
#include <exception>
#include <new>
#include <unordered_map>

#include "common/strings.h"
#include "common/utf8.h"
#include "src/text/safe_cuts.h"
#include "src/text/scheme.h"

namespace tessera::text {

namespace {

constexpr std::string_view kSpaceSymbol = "▁";      // U+2581, which stands for a space in pieces
constexpr size_t kMaxRunBytes = size_t{16} << 20;   // the library needs some 130 bytes of memory for each
constexpr size_t kMaxPieceBytes = 4096;             // longer pieces are refused by some of its versions
constexpr size_t kMaxUnusedWork = size_t{1} << 26;  // bytes looked at before Unused pieces count as formable

// The message and field numbers of sentencepiece_model.proto that are written here.
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
    NormalizerAddDummyPrefix = 3,
    NormalizerRemoveExtraWhitespaces = 4,
    NormalizerEscapeWhitespaces = 5,
};
constexpr uint64_t kModelTypeBpe = 2;

/// Protocol buffers' wire format, as far as it is needed.
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

void append_piece(ProtoWriter& model, std::string_view text, float score, TokenType type) {
    ProtoWriter piece;
    piece.text(Field::PieceText, text);
    piece.real(Field::PieceScore, score);
    piece.number(Field::PieceType, static_cast<uint64_t>(type));  // the two numberings are the same
    model.message(Field::ModelPieces, piece);
}

std::string byte_piece(int byte) { return strf("<0x%02X>", static_cast<unsigned>(byte)); }

/// What the library is told about a vocabulary: which entries take part in merging, and under which name.
class ModelBuilder {
  public:
    explicit ModelBuilder(const Vocab& vocab);

    /// The serialized model. Its piece i is token ids()[i].
    std::string serialize();
    const std::vector<int32_t>& ids() const { return ids_; }
    SafeCuts take_cuts() { return std::move(cuts_); }
    /// False when an Unused piece can come out of merging: the library then splits it again by what it saw
    /// last anywhere in the text, which ties distant places together.
    bool may_cut() const { return may_cut_; }
    /// The token of each byte, or what stands for it; kNoToken when nothing does.
    const std::array<int32_t, 256>& byte_ids() const { return byte_ids_; }

  private:
    bool merges(int32_t id) const;
    bool can_be_formed(std::string_view piece) const;
    int32_t unknown_token() const;
    std::string_view name_and_type(int32_t id, TokenType& type, std::string& storage) const;

    const Vocab& vocab_;
    std::unordered_map<std::string_view, int32_t>
        pieces_;  // the entries that merging works on, each text once
    std::array<int32_t, 256> byte_ids_;
    int32_t n_bytes_ = 0;  // how many of byte_ids_ are Byte tokens
    int32_t unk_ = kNoToken;
    bool may_cut_ = true;
    SafeCuts cuts_;
    std::vector<int32_t> ids_;
};

ModelBuilder::ModelBuilder(const Vocab& vocab) : vocab_(vocab) {
    byte_ids_.fill(kNoToken);
    for (int32_t id = 0; id < vocab.size(); id++) {
        const std::string_view text = vocab.text(id);
        const TokenType type = vocab.type(id);
        if (type == TokenType::Byte) {
            int32_t& byte_id = byte_ids_[vocab.byte_of(id)];
            if (byte_id != kNoToken) continue;
            byte_id = id;
            n_bytes_++;
        } else if ((type == TokenType::Normal || type == TokenType::Unused) && !text.empty() &&
                   text.size() <= kMaxPieceBytes) {
            pieces_.try_emplace(text, id);
        }
    }
    unk_ = unknown_token();
    size_t work = 0;
    for (const auto& [text, id] : pieces_) {
        cuts_.add_piece(text);
        if (vocab.type(id) != TokenType::Unused || !may_cut_) continue;
        work += text.size() * text.size();
        may_cut_ = work <= kMaxUnusedWork && !can_be_formed(text);
    }
    cuts_.finish();
}

/// A piece's first spelling in the vocabulary; later ones can come out of no text.
bool ModelBuilder::merges(int32_t id) const {
    const TokenType type = vocab_.type(id);
    if (type != TokenType::Normal && type != TokenType::Unused) return false;
    const auto it = pieces_.find(vocab_.text(id));
    return it != pieces_.end() && it->second == id;
}

bool ModelBuilder::can_be_formed(std::string_view piece) const {
    if (!utf8::is_valid(piece)) return false;
    const auto is_symbol = [&](std::string_view part) {
        return utf8::decode(part).n_bytes == part.size() || pieces_.count(part) > 0;
    };
    for (size_t cut = utf8::decode(piece).n_bytes; cut < piece.size();
         cut += utf8::decode(piece.substr(cut)).n_bytes)
        if (is_symbol(piece.substr(0, cut)) && is_symbol(piece.substr(cut))) return true;
    return false;
}

int32_t ModelBuilder::unknown_token() const {
    const int32_t named = vocab_.special().unk;
    if (named != kNoToken && vocab_.type(named) != TokenType::Byte && !merges(named)) return named;
    for (int32_t id = 0; id < vocab_.size(); id++)
        if (vocab_.type(id) == TokenType::Unknown) return id;
    return kNoToken;
}

/// Entries that take no part get a name that no text contains (0xFF is in no UTF-8) and a type the library
/// keeps out of merging.
std::string_view ModelBuilder::name_and_type(int32_t id, TokenType& type, std::string& storage) const {
    type = vocab_.type(id);
    if (merges(id)) return vocab_.text(id);
    if (type == TokenType::Byte && byte_ids_[vocab_.byte_of(id)] == id)
        return storage = byte_piece(vocab_.byte_of(id));
    type = id == unk_ ? TokenType::Unknown : TokenType::Control;
    return storage = strf("\xFF%d", id);
}

std::string ModelBuilder::serialize() {
    ProtoWriter model;
    std::string storage;
    for (int32_t id = 0; id < vocab_.size(); id++) {
        TokenType type;
        const std::string_view name = name_and_type(id, type, storage);
        append_piece(model, name, vocab_.score(id), type);
        ids_.push_back(id);
    }
    if (unk_ == kNoToken) {
        append_piece(model, "\xFF", 0.0f, TokenType::Unknown);
        ids_.push_back(kNoToken);
    }
    for (int byte = 0; byte < 256; byte++) {
        int32_t& id = byte_ids_[static_cast<size_t>(byte)];
        if (id != kNoToken) continue;
        id = unk_;
        if (n_bytes_ == 0) continue;
        append_piece(model, byte_piece(byte), 0.0f, TokenType::Byte);
        ids_.push_back(id);
    }
    ProtoWriter trainer, normalizer;
    trainer.number(Field::TrainerModelType, kModelTypeBpe);
    trainer.number(Field::TrainerByteFallback, n_bytes_ > 0);
    normalizer.text(Field::NormalizerName, "identity");
    normalizer.number(Field::NormalizerAddDummyPrefix, 0);
    normalizer.number(Field::NormalizerRemoveExtraWhitespaces, 0);
    normalizer.number(Field::NormalizerEscapeWhitespaces, 1);
    model.message(Field::ModelTrainerSpec, trainer);
    model.message(Field::ModelNormalizerSpec, normalizer);
    return model.bytes();
}

/// Calls the library: its exceptions and its Status become our Error.
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

/// Spaces in runs count as one, at both ends not at all.
std::string collapse_spaces(std::string_view text) {
    std::string out;
    for (const char c : text)
        if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
    if (!out.empty() && out.back() == ' ') out.pop_back();
    return out;
}

/// Ids of the short runs of one text seen so far: prose repeats its words.
class RunCache {
  public:
    static constexpr size_t kMaxRunBytes = 64;

    /// Null when absent.
    const std::vector<int32_t>* find(std::string_view run) const {
        const auto it = ids_.find(run);
        return it == ids_.end() ? nullptr : &it->second;
    }
    /// `run` must stay valid as long as the cache.
    void add(std::string_view run, std::vector<int32_t> ids) {
        if (ids_.size() < kMaxRuns) ids_.emplace(run, std::move(ids));
    }

  private:
    static constexpr size_t kMaxRuns = size_t{1} << 16;
    std::unordered_map<std::string_view, std::vector<int32_t>> ids_;
};

class SpmScheme final : public Scheme {
  public:
    SpmScheme(const Vocab& vocab, ModelBuilder& builder) : vocab_(vocab), byte_ids_(builder.byte_ids()) {
        ids_ = builder.ids();
        may_cut_ = builder.may_cut();
        cuts_ = builder.take_cuts();
    }

    Result<void> load(const std::string& serialized) {
        return guarded("load the vocabulary", [&] { return processor_.LoadFromSerializedProto(serialized); });
    }

    Result<void> encode_fragment(std::string_view text, bool at_boundary,
                                 std::vector<int32_t>& ids) const override {
        std::string prepared = vocab_.remove_extra_whitespaces() ? collapse_spaces(text) : std::string(text);
        if (prepared.empty()) return {};
        if (at_boundary && vocab_.add_space_prefix()) prepared.insert(0, 1, ' ');
        const std::string_view all = prepared;
        RunCache cache;
        for (size_t begin = 0, pos = 0; begin < all.size();) {
            utf8::Decoded c{0, 0, true};
            while (pos < all.size() && c.valid) {
                const uint8_t byte = static_cast<uint8_t>(all[pos]);
                c = byte < 0x80 ? utf8::Decoded{byte, 1, true} : utf8::decode(all.substr(pos));
                if (c.valid) pos += c.n_bytes;
            }
            TSR_TRY_VOID(encode_valid(all.substr(begin, pos - begin), cache, ids));
            // Bytes that are no character: each is its own token.
            for (begin = pos; !c.valid && pos < begin + c.n_bytes; pos++) {
                const int32_t id = byte_ids_[static_cast<uint8_t>(all[pos])];
                if (id != kNoToken) ids.push_back(id);
            }
            begin = pos;
        }
        return {};
    }

    void append_bytes(int32_t id, std::string& out) const override {
        std::string_view text = vocab_.text(id);
        for (size_t at; (at = text.find(kSpaceSymbol)) != text.npos;
             text.remove_prefix(at + kSpaceSymbol.size()))
            (out += text.substr(0, at)) += ' ';
        out += text;
    }

  private:
    /// A valid text, in runs between which nothing merges.
    Result<void> encode_valid(std::string_view text, RunCache& cache, std::vector<int32_t>& ids) const {
        while (!text.empty()) {
            const std::string_view run = text.substr(0, may_cut_ ? cuts_.first(text) : text.size());
            text.remove_prefix(run.size());
            if (const std::vector<int32_t>* known = cache.find(run)) {
                ids.insert(ids.end(), known->begin(), known->end());
                continue;
            }
            TSR_TRY(std::vector<int32_t> run_ids, encode_run(run));
            ids.insert(ids.end(), run_ids.begin(), run_ids.end());
            if (run.size() <= RunCache::kMaxRunBytes) cache.add(run, std::move(run_ids));
        }
        return {};
    }

    Result<std::vector<int32_t>> encode_run(std::string_view run) const {
        if (run.size() > kMaxRunBytes)
            return fail(ErrorCode::InvalidArgument,
                        "text to tokenize: expected at most %s without a place to cut, found %s",
                        format_bytes(kMaxRunBytes).c_str(), format_bytes(run.size()).c_str());
        std::vector<int> ids;
        TSR_TRY_VOID(guarded("encode text", [&] { return processor_.Encode(run, &ids); }));
        for (int& id : ids) id = ids_[static_cast<size_t>(id)];
        std::erase(ids, kNoToken);
        return ids;
    }

    const Vocab& vocab_;
    sentencepiece::SentencePieceProcessor processor_;
    std::vector<int32_t> ids_;           // of the library's pieces
    std::array<int32_t, 256> byte_ids_;  // of bytes outside any character
    SafeCuts cuts_;
    bool may_cut_;
};

}  // namespace

Result<std::unique_ptr<Scheme>> create_spm_scheme(const Vocab& vocab, const gguf::File&) {
    ModelBuilder builder(vocab);
    const std::string serialized = builder.serialize();
    for (int byte = 0; byte < 256; byte++) {
        if (builder.byte_ids()[static_cast<size_t>(byte)] == kNoToken)
            return fail(ErrorCode::Malformed,
                        "key 'tokenizer.ggml.tokens': expected 256 byte tokens or an unknown token; %s and "
                        "an unknown "
                        "token are absent, so that some text could not be expressed",
                        byte_piece(byte).c_str());
    }
    auto scheme = std::make_unique<SpmScheme>(vocab, builder);
    TSR_TRY_VOID(scheme->load(serialized));
    return scheme;
}

}  // namespace tessera::text
