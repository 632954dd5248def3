// SentencePiece BPE: characters merge into the piece with the best score, the leftmost among equals, as
// libsentencepiece does it (the tests compare), but in linear time for runs of one character too. Spaces are
// U+2581 in pieces. Characters without a piece become byte tokens or the unknown token. Next: merge_loop.h,
// safe_cuts.h (cuts of long texts), tokenizer.cpp (special tokens, which are removed before).
#include <algorithm>
#include <array>
#include <unordered_map>

#include "common/strings.h"
#include "common/utf8.h"
#include "src/text/merge_loop.h"
#include "src/text/safe_cuts.h"
#include "src/text/scheme.h"
#include "src/text/scratch_pool.h"
#include "src/text/space_symbol.h"
#include "src/text/text_index.h"
#include "src/text/valid_runs.h"
#include "src/text/word_cache.h"

namespace tessera::text {

namespace {

constexpr size_t kMaxRunBytes = size_t{1} << 30;  // up to three times as much with spaces as U+2581
constexpr size_t kMaxSpmPieceBytes = 4096;        // longer pieces are ignored
constexpr size_t kMaxUnusedWork = size_t{1}
                                  << 26;  // bytes visited before Unused pieces are assumed to be formable
constexpr size_t kKeepSymbols = size_t{1} << 16;

class SpmScheme final : public SpaceSymbolScheme {
  public:
    explicit SpmScheme(const Vocab& vocab) : SpaceSymbolScheme(vocab) { byte_ids_.fill(kNoToken); }

    Result<void> load();

    Result<void> encode_fragment(std::string_view text, bool at_boundary,
                                 std::vector<int32_t>& ids) const override;

  private:
    /// The last merge that formed each Unused piece, by id: length of its left part in bytes.
    using Splits = std::unordered_map<int32_t, uint32_t>;

    struct Scratch {
        WordCache cache;
        MergeLoop loop;
        std::vector<Symbol> symbols;
        std::string spelled;  // a run with its spaces as U+2581
        Splits splits;
        size_t first = 0;  // index of this fragment's first id
    };

    bool can_be_formed(std::string_view piece) const;
    void load_unknown_token();
    void load_orders();
    void encode_valid(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const;
    void encode_run(std::string_view run, Scratch& scratch, std::vector<int32_t>& ids) const;
    Merge merge_of(const Symbol& left, const Symbol& right, Scratch& scratch) const;
    void append_piece(std::string_view piece, const Scratch& scratch, std::vector<int32_t>& ids) const;
    void append_bytes_of(std::string_view text, size_t first, std::vector<int32_t>& ids) const;

    TextIndex pieces_;                   // the Normal and Unused ones, each text once
    std::vector<uint32_t> orders_;       // merge order of each token: lower for a better score
    std::array<int32_t, 256> byte_ids_;  // the token of each byte, or its replacement
    int n_byte_tokens_ = 0;
    int32_t unknown_ = kNoToken;
    size_t max_piece_bytes_ = 0;
    /// False if merging can form an Unused piece: it is then split by the last merge that formed the same
    /// piece anywhere in the text, which makes distant positions depend on each other.
    bool may_cut_ = true;
    SafeCuts cuts_;
    mutable ScratchPool<Scratch> pool_;
};

Result<void> SpmScheme::load() {
    pieces_.reserve(static_cast<size_t>(vocab_.size()));
    for (int32_t id = 0; id < vocab_.size(); id++) {
        if (vocab_.contains(id + TextIndex::kAhead)) pieces_.prefetch(vocab_.text(id + TextIndex::kAhead));
        const std::string_view text = vocab_.text(id);
        const TokenType type = vocab_.type(id);
        if (type == TokenType::Byte) {
            int32_t& byte_id = byte_ids_[vocab_.byte_of(id)];
            if (byte_id != kNoToken) continue;
            byte_id = id;
            n_byte_tokens_++;
        } else if ((type == TokenType::Normal || type == TokenType::Unused) && !text.empty() &&
                   text.size() <= kMaxSpmPieceBytes && pieces_.find(text) == kNoToken) {
            pieces_.add(text, id);
            cuts_.add_piece(text);
            max_piece_bytes_ = std::max(max_piece_bytes_, text.size());
        }
    }
    cuts_.finish();
    size_t work = 0;
    for (int32_t id = 0; id < vocab_.size() && may_cut_; id++) {
        const std::string_view text = vocab_.text(id);
        if (vocab_.type(id) != TokenType::Unused || pieces_.find(text) != id) continue;
        work += text.size() * text.size();
        may_cut_ = work <= kMaxUnusedWork && !can_be_formed(text);
    }
    load_unknown_token();
    load_orders();
    for (unsigned byte = 0; byte < 256; byte++) {
        int32_t& id = byte_ids_[byte];
        if (id == kNoToken) id = unknown_;
        if (id == kNoToken)
            return fail(
                ErrorCode::Malformed,
                "key 'tokenizer.ggml.tokens': expected 256 byte tokens or an unknown token; <0x%02X> and "
                "an unknown token are absent, so that some text could not be expressed",
                byte);
    }
    return {};
}

bool SpmScheme::can_be_formed(std::string_view piece) const {
    if (!utf8::is_valid(piece)) return false;
    const auto is_symbol = [&](std::string_view part) {
        return utf8::decode(part).n_bytes == part.size() || pieces_.find(part) != kNoToken;
    };
    for (size_t cut = utf8::decode(piece).n_bytes; cut < piece.size();
         cut += utf8::decode(piece.substr(cut)).n_bytes)
        if (is_symbol(piece.substr(0, cut)) && is_symbol(piece.substr(cut))) return true;
    return false;
}

/// Takes the file's id unless it is a piece or a byte, else the first token of type Unknown.
void SpmScheme::load_unknown_token() {
    const int32_t named = vocab_.special().unk;
    if (named != kNoToken && vocab_.type(named) != TokenType::Byte &&
        pieces_.find(vocab_.text(named)) != named)
        unknown_ = named;
    for (int32_t id = 0; id < vocab_.size() && unknown_ == kNoToken; id++)
        if (vocab_.type(id) == TokenType::Unknown) unknown_ = id;
}

void SpmScheme::load_orders() {
    std::vector<float> scores;
    for (int32_t id = 0; id < vocab_.size(); id++) scores.push_back(vocab_.score(id));
    std::sort(scores.begin(), scores.end(), std::greater<>());
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    for (int32_t id = 0; id < vocab_.size(); id++) {
        const auto place = std::lower_bound(scores.begin(), scores.end(), vocab_.score(id), std::greater<>());
        orders_.push_back(static_cast<uint32_t>(place - scores.begin()));
    }
}

Result<void> SpmScheme::encode_fragment(std::string_view text, bool at_boundary,
                                        std::vector<int32_t>& ids) const {
    std::string prepared = vocab_.remove_extra_whitespaces() ? collapse_spaces(text) : std::string(text);
    if (prepared.empty()) return {};
    if (at_boundary && vocab_.add_space_prefix()) prepared.insert(0, 1, ' ');
    auto scratch = pool_.take();
    const auto on_valid = [&](std::string_view run) -> Result<void> {
        if (run.size() > kMaxRunBytes)
            return fail(ErrorCode::InvalidArgument,
                        "text to tokenize: expected at most %s in one piece, found %s",
                        format_bytes(kMaxRunBytes).c_str(), format_bytes(run.size()).c_str());
        encode_valid(run, *scratch, ids);
        return {};
    };
    const auto on_byte = [&](char byte) { append_bytes_of({&byte, 1}, scratch->first, ids); };
    scratch->first = ids.size();
    TSR_TRY_VOID(for_each_valid_run(prepared, on_valid, on_byte));
    scratch->loop.trim();
    if (scratch->symbols.capacity() > kKeepSymbols) scratch->symbols = {};
    return {};
}

/// Encodes valid text in runs between which nothing merges.
void SpmScheme::encode_valid(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const {
    while (!text.empty()) {
        const std::string_view run = text.substr(0, may_cut_ ? cuts_.first(text) : text.size());
        text.remove_prefix(run.size());
        // Adjacent unknown characters are one token, also across runs.
        const bool after_unknown =
            n_byte_tokens_ == 0 && ids.size() > scratch.first && ids.back() == unknown_;
        if (run.size() > WordCache::kMaxWordBytes || !may_cut_ || after_unknown) {
            encode_run(run, scratch, ids);
            continue;
        }
        WordCache::Entry& entry = scratch.cache.at(run);
        if (entry.holds(run)) {
            ids.insert(ids.end(), entry.ids().begin(), entry.ids().end());
            continue;
        }
        const size_t before = ids.size();
        encode_run(run, scratch, ids);
        entry.set(run, std::span(ids).subspan(before));
    }
}

void SpmScheme::encode_run(std::string_view run, Scratch& scratch, std::vector<int32_t>& ids) const {
    std::string& spelled = scratch.spelled;
    std::vector<Symbol>& symbols = scratch.symbols;
    spelled.clear();
    symbols.clear();
    scratch.splits.clear();
    for (size_t pos = 0; pos < run.size();) {
        const size_t n = utf8::decode(run.substr(pos)).n_bytes, begin = spelled.size();
        spelled += run[pos] == ' ' ? kSpaceSymbol : run.substr(pos, n);
        symbols.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(spelled.size() - begin)});
        pos += n;
    }
    scratch.loop.run(symbols,
                     [&](const Symbol& left, const Symbol& right) { return merge_of(left, right, scratch); });
    for (const Symbol& symbol : symbols) {
        if (symbol.id != kNoToken && scratch.splits.empty())
            ids.push_back(symbol.id);
        else
            append_piece(std::string_view(spelled).substr(symbol.begin, symbol.n_bytes), scratch, ids);
    }
    if (spelled.capacity() > kKeepSymbols) spelled = {};
}

Merge SpmScheme::merge_of(const Symbol& left, const Symbol& right, Scratch& scratch) const {
    const size_t n = size_t{left.n_bytes} + right.n_bytes;
    if (n > max_piece_bytes_) return {};
    const int32_t id = pieces_.find(std::string_view(scratch.spelled).substr(left.begin, n));
    if (id == kNoToken) return {};
    if (!may_cut_ && vocab_.type(id) == TokenType::Unused) scratch.splits[id] = left.n_bytes;
    return {orders_[static_cast<size_t>(id)], id};
}

/// Appends a merged piece, or a single character.
void SpmScheme::append_piece(std::string_view piece, const Scratch& scratch,
                             std::vector<int32_t>& ids) const {
    // A stack of the parts of Unused pieces, whose parts may be Unused again, to any depth.
    std::vector<std::string_view> waiting{piece};
    while (!waiting.empty()) {
        const std::string_view part = waiting.back();
        waiting.pop_back();
        const int32_t id = pieces_.find(part);
        const auto split = scratch.splits.find(id);
        if (split != scratch.splits.end()) {
            waiting.push_back(part.substr(split->second));
            waiting.push_back(part.substr(0, split->second));
        } else if (id != kNoToken) {
            ids.push_back(id);
        } else {
            append_bytes_of(part, scratch.first, ids);
        }
    }
}

/// Appends text without a piece as bytes or as the unknown token. `first`: index of the fragment's first id.
void SpmScheme::append_bytes_of(std::string_view text, size_t first, std::vector<int32_t>& ids) const {
    if (n_byte_tokens_ == 0 && ids.size() > first && ids.back() == unknown_) return;
    for (const char byte : n_byte_tokens_ == 0 ? text.substr(0, 1) : text)
        ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
}

}  // namespace

Result<std::unique_ptr<Scheme>> create_spm_scheme(const Vocab& vocab, const gguf::File&) {
    auto scheme = std::make_unique<SpmScheme>(vocab);
    TSR_TRY_VOID(scheme->load());
    return scheme;
}

}  // namespace tessera::text
