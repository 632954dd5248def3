// Byte-level BPE: the vocabulary's pre-tokenizer splits text into pieces, whose bytes are merged by the
// vocabulary's list of merges. Symbols are token ids; a merge may also produce an intermediate text that is
// not a token, which has an id beyond the tokens' and is split into bytes if it remains. Bytes that are not
// UTF-8 are pieces of their own, so that nothing is lost. Next: pretokenizers.cpp, merge_loop.h.
#include <algorithm>
#include <cinttypes>
#include <deque>
#include <optional>

#include "common/log.h"
#include "common/strings.h"
#include "src/text/byte_letters.h"
#include "src/text/merge_table.h"
#include "src/text/pretokenizers.h"
#include "src/text/scheme.h"
#include "src/text/scratch_pool.h"
#include "src/text/splitter.h"
#include "src/text/valid_runs.h"
#include "src/text/word_cache.h"

namespace tessera::text {

namespace {

constexpr const char* kMergesKey = "tokenizer.ggml.merges";
constexpr const char* kPreKey = "tokenizer.ggml.pre";
constexpr size_t kMaxBpePieceBytes = size_t{1} << 31;
constexpr size_t kKeepEnds = size_t{1} << 20;

Result<const PreTokenizer*> choose_pre_tokenizer(const Vocab& vocab) {
    if (vocab.pre().empty()) {
        log::warn(
            "key '%s' is absent: text is split as by 'default', which may differ from the model's training",
            kPreKey);
        return find_pre_tokenizer("default");
    }
    if (const PreTokenizer* row = find_pre_tokenizer(vocab.pre())) return row;
    std::vector<std::string_view> names;
    for (const PreTokenizer& row : pre_tokenizers()) names.push_back(row.name);
    const std::string_view nearest = nearest_name(vocab.pre(), names);
    const std::string hint = nearest.empty() ? "" : strf(" (nearest: '%s')", std::string(nearest).c_str());
    return fail(
        ErrorCode::Unsupported,
        "key '%s': expected a known pre-tokenizer, found '%s'%s; to use one that splits the same way: "
        "--override-kv %s=str:%s (docs/reference/tokenizers.md has their names)",
        kPreKey, printable(vocab.pre()).c_str(), hint.c_str(), kPreKey,
        nearest.empty() ? "NAME" : std::string(nearest).c_str());
}

/// Whether a token is spelled with the letters of bytes. Control and byte tokens are not, and a user-defined
/// one is the text itself: "ÿ", not the byte 0xFF.
bool is_spelled(const Vocab& vocab, int32_t id) {
    const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
    switch (vocab.type(id)) {
        case TokenType::Normal:
        case TokenType::Unused:
            return true;
        case TokenType::UserDefined:
            return std::all_of(vocab.text(id).begin(), vocab.text(id).end(), is_ascii);
        default:
            return false;
    }
}

/// The texts in the list of merges, as ids.
class Symbols {
  public:
    explicit Symbols(const Vocab& vocab) : vocab_(vocab) {
        for (size_t byte = 0; byte < 256; byte++) byte_ids_[byte] = token(byte_letters()[byte]);
    }

    /// The token with this spelling if merging may produce it; kNoToken otherwise.
    int32_t token(std::string_view spelling) const {
        const int32_t id = vocab_.find(spelling);
        return id != kNoToken && is_spelled(vocab_, id) ? id : kNoToken;
    }

    /// The same, with an id beyond the tokens' for an intermediate text.
    int32_t token_or_passage(std::string_view spelling) {
        if (const int32_t id = token(spelling); id != kNoToken) return id;
        const int32_t next = vocab_.size() + static_cast<int32_t>(passages_.size());
        const auto [it, is_new] = passage_ids_.try_emplace(std::string(spelling), next);
        if (is_new) passages_.push_back(it->first);
        return it->second;
    }

    size_t n_passages() const { return passages_.size(); }
    /// The token of each byte, or kNoToken.
    const std::array<int32_t, 256>& byte_ids() const { return byte_ids_; }

  private:
    const Vocab& vocab_;
    std::array<int32_t, 256> byte_ids_;
    std::unordered_map<std::string, int32_t> passage_ids_;
    std::deque<std::string_view> passages_;
};

struct Split {
    std::string_view left, right;
};

struct SymbolPair {
    int32_t left, right;
};

class BpeScheme final : public Scheme {
  public:
    BpeScheme(const Vocab& vocab, const PreTokenizer& pre, Splitter splitter)
        : vocab_(vocab), pre_(pre), splitter_(std::move(splitter)) {}

    Result<void> load(const gguf::File& file);

    Result<void> encode_fragment(std::string_view text, bool at_boundary,
                                 std::vector<int32_t>& ids) const override;

    void append_bytes(int32_t id, std::string& out) const override {
        append_spelled_bytes(vocab_.text(id), out);
    }

  private:
    struct Scratch {
        Splitter::Scratch splitter;
        WordCache cache;
        MergeLoop loop;
        std::vector<size_t> ends;
        std::vector<Symbol> symbols;
        std::string spelling;
    };

    Result<void> load_merges(const gguf::Value& merges, Symbols& symbols);
    void merges_from_ids(Symbols& symbols);
    void settle_bytes(const Symbols& symbols);
    void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;
    void encode_new_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;
    int32_t whole_word(std::string_view word, Scratch& scratch) const;
    void append_byte(char byte, std::vector<int32_t>& ids) const {
        const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
        if (id != kNoToken) ids.push_back(id);
    }

    const Vocab& vocab_;
    const PreTokenizer& pre_;
    Splitter splitter_;
    MergeTable merges_;
    std::vector<Merge> byte_merges_;           // [256][256]
    std::array<int32_t, 256> byte_ids_{};      // the token of each byte, or its replacement
    std::array<int32_t, 256> byte_symbols_{};  // the same, with an id of its own if there is no replacement
    size_t max_word_bytes_ = 0;                // no token is longer
    mutable ScratchPool<Scratch> pool_;
};

Result<void> BpeScheme::load(const gguf::File& file) {
    Symbols symbols(vocab_);
    const gguf::Value* merges = file.find(kMergesKey);
    if (merges && (!merges->is_array() || merges->element_type() != gguf::ValueType::String))
        return fail(ErrorCode::Malformed, "key '%s': expected an array of strings, found %s", kMergesKey,
                    merges->to_string(2).c_str());
    if (merges && !(merges->size() == 0 && pre_.ranks_are_ids)) {
        TSR_TRY_VOID(load_merges(*merges, symbols));
    } else if (pre_.ranks_are_ids) {
        merges_from_ids(symbols);
    } else {
        return fail(ErrorCode::Malformed,
                    "key '%s': expected the merges of a byte-level BPE vocabulary, found none", kMergesKey);
    }
    settle_bytes(symbols);
    for (int32_t id = 0; id < vocab_.size(); id++)
        max_word_bytes_ = std::max(max_word_bytes_, vocab_.text(id).size());
    return {};
}

/// The two spellings of a merge. Spaces in spellings are encoded as letters, so that the only space separates
/// the two.
Result<Split> split_merge(std::string_view text, uint32_t order) {
    const size_t space = text.find(' ');
    if (space == 0 || space == text.npos || space + 1 == text.size() ||
        text.find(' ', space + 1) != text.npos)
        return fail(ErrorCode::Malformed,
                    "key '%s': expected merge %u to be two spellings with a space between, found '%s'",
                    kMergesKey, order, printable(text).c_str());
    return Split{text.substr(0, space), text.substr(space + 1)};
}

Result<void> BpeScheme::load_merges(const gguf::Value& merges, Symbols& symbols) {
    if (merges.size() >= Merge::kNever)
        return fail(ErrorCode::Unsupported, "key '%s': expected fewer than 2^32 - 1 merges, found %" PRIu64,
                    kMergesKey, merges.size());
    const auto n_merges = static_cast<uint32_t>(merges.size());
    merges_.reserve(n_merges);
    // Batch size: the slots of a batch in both tables are prefetched before the first is used.
    constexpr uint32_t kTogether = 32;
    std::array<Split, kTogether> splits;
    std::array<std::string, kTogether> joined;
    std::array<SymbolPair, kTogether> pairs;
    for (uint32_t first = 0, n; first < n_merges; first += n) {
        n = std::min(kTogether, n_merges - first);
        for (uint32_t i = 0; i < n; i++) {
            const std::string_view text = merges.at(first + i).as_string().value_or("");
            TSR_TRY(splits[i], split_merge(text, first + i));
            joined[i].assign(splits[i].left).append(splits[i].right);
            for (const std::string_view spelling :
                 {splits[i].left, splits[i].right, std::string_view(joined[i])})
                vocab_.prefetch(spelling);
        }
        for (uint32_t i = 0; i < n; i++) {
            pairs[i] = {symbols.token_or_passage(splits[i].left), symbols.token_or_passage(splits[i].right)};
            merges_.prefetch(pairs[i].left, pairs[i].right);
        }
        for (uint32_t i = 0; i < n; i++)
            merges_.add(pairs[i].left, pairs[i].right, {first + i, symbols.token_or_passage(joined[i])});
    }
    if (symbols.n_passages() > 0)
        log::warn("key '%s': %zu texts are not tokens; they are split into bytes where they remain",
                  kMergesKey, symbols.n_passages());
    return {};
}

void BpeScheme::merges_from_ids(Symbols& symbols) {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    std::vector<int32_t> results;
    for (int32_t id = 0; id < vocab_.size(); id++) {
        const std::string_view text = vocab_.text(id);
        if (symbols.token(text) != id) continue;
        for (size_t cut = 1; cut < text.size(); cut++) {
            if ((static_cast<uint8_t>(text[cut]) & 0xC0) == 0x80) continue;  // inside a letter
            const int32_t left = symbols.token(text.substr(0, cut)), right = symbols.token(text.substr(cut));
            if (left == kNoToken || right == kNoToken) continue;
            pairs.emplace_back(left, right);
            results.push_back(id);
        }
    }
    merges_.reserve(pairs.size());
    for (size_t i = 0; i < pairs.size(); i++)
        merges_.add(pairs[i].first, pairs[i].second, {static_cast<uint32_t>(results[i]), results[i]});
}

void BpeScheme::settle_bytes(const Symbols& symbols) {
    size_t n_missing = 0;
    for (size_t byte = 0; byte < 256; byte++) {
        const int32_t id = symbols.byte_ids()[byte];
        // An id without merges.
        byte_symbols_[byte] =
            id != kNoToken ? id : std::numeric_limits<int32_t>::max() - static_cast<int32_t>(byte);
        byte_ids_[byte] = id != kNoToken ? id : vocab_.special().unk;
        // Some published vocabularies lack control characters, and bytes that never occur in UTF-8 or only in
        // unassigned code points.
        const bool is_usual = byte < 0x80 ? byte >= ' ' || byte == '\t' || byte == '\n' || byte == '\r'
                                          : byte != 0xC0 && byte != 0xC1 && byte < 0xF1;
        n_missing += id == kNoToken && is_usual;
    }
    if (n_missing > 0)
        log::warn(
            "key 'tokenizer.ggml.tokens': %zu of the bytes that occur in text have no token: they become %s",
            n_missing, vocab_.special().unk != kNoToken ? "the unknown token" : "nothing");
    byte_merges_.resize(256 * 256);
    for (size_t left = 0; left < 256; left++)
        for (size_t right = 0; right < 256; right++)
            byte_merges_[left * 256 + right] = merges_.find(byte_symbols_[left], byte_symbols_[right]);
}

Result<void> BpeScheme::encode_fragment(std::string_view text, bool, std::vector<int32_t>& ids) const {
    auto scratch = pool_.take();
    const auto on_valid = [&](std::string_view run) -> Result<void> {
        TSR_TRY_VOID(splitter_.split(run, scratch->splitter, scratch->ends));
        size_t begin = 0;
        for (const size_t end : scratch->ends) {
            if (end - begin >= kMaxBpePieceBytes)
                return fail(ErrorCode::InvalidArgument,
                            "text to tokenize: expected words below %s, found one of %s",
                            format_bytes(kMaxBpePieceBytes).c_str(), format_bytes(end - begin).c_str());
            encode_word(run.substr(begin, end - begin), *scratch, ids);
            begin = end;
        }
        return {};
    };
    TSR_TRY_VOID(for_each_valid_run(text, on_valid, [&](char byte) { append_byte(byte, ids); }));
    scratch->loop.trim();
    if (scratch->ends.capacity() > kKeepEnds) scratch->ends = {};
    if (scratch->symbols.capacity() > kKeepEnds) scratch->symbols = {};
    return {};
}

void BpeScheme::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
    if (word.size() > WordCache::kMaxWordBytes) return encode_new_word(word, scratch, ids);
    WordCache::Entry& entry = scratch.cache.at(word);
    if (entry.holds(word)) {
        ids.insert(ids.end(), entry.ids().begin(), entry.ids().end());
        return;
    }
    const size_t before = ids.size();
    encode_new_word(word, scratch, ids);
    entry.set(word, std::span(ids).subspan(before));
}

int32_t BpeScheme::whole_word(std::string_view word, Scratch& scratch) const {
    if (!pre_.whole_words || word.size() > max_word_bytes_) return kNoToken;
    scratch.spelling.clear();
    for (const char byte : word) scratch.spelling += byte_letters()[static_cast<uint8_t>(byte)];
    const int32_t id = vocab_.find(scratch.spelling);
    return id != kNoToken && is_spelled(vocab_, id) ? id : kNoToken;
}

void BpeScheme::encode_new_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
    if (word.size() == 1) return append_byte(word[0], ids);
    if (const int32_t whole = whole_word(word, scratch); whole != kNoToken) return ids.push_back(whole);
    std::vector<Symbol>& symbols = scratch.symbols;
    symbols.resize(word.size());
    for (uint32_t i = 0; i < word.size(); i++)
        symbols[i] = {i, 1, byte_symbols_[static_cast<uint8_t>(word[i])]};
    scratch.loop.run(symbols, [&](const Symbol& left, const Symbol& right) {
        if (left.n_bytes + right.n_bytes > 2) return merges_.find(left.id, right.id);
        return byte_merges_[static_cast<size_t>(static_cast<uint8_t>(word[left.begin])) * 256 +
                            static_cast<uint8_t>(word[right.begin])];
    });
    for (const Symbol& symbol : symbols) {
        if (vocab_.contains(symbol.id)) {
            ids.push_back(symbol.id);
            continue;
        }
        for (const char byte : word.substr(symbol.begin, symbol.n_bytes)) append_byte(byte, ids);
    }
}

}  // namespace

Result<std::unique_ptr<Scheme>> create_bpe_scheme(const Vocab& vocab, const gguf::File& file) {
    TSR_TRY(const PreTokenizer* pre, choose_pre_tokenizer(vocab));
    TSR_TRY(Splitter splitter, Splitter::create(pre->patterns));
    auto scheme = std::make_unique<BpeScheme>(vocab, *pre, std::move(splitter));
    TSR_TRY_VOID(scheme->load(file));
    return scheme;
}

}  // namespace tessera::text
