// Loads a vocabulary from GGUF metadata. Assumes that gguf::File has checked the file's structure. Validates
// every key, so that the rest of src/text can rely on the vocabulary. Next: tokenizer.cpp (text to ids),
// spm.cpp (the SentencePiece scheme).
#include "src/text/vocab.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <optional>

#include "common/log.h"
#include "common/strings.h"
#include "src/text/pretokenizers.h"

namespace tessera::text {

namespace {

constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";
constexpr const char* kTypesKey = "tokenizer.ggml.token_type";

/// Defaults of a kind of vocabulary for absent keys.
struct KindDefaults {
    std::string_view model;
    bool add_bos, add_eos, add_sep, add_space_prefix;
    SpecialIds ids;  // each applies only if that token is not plain text
};

constexpr KindDefaults kKinds[] = {
    {.model = "llama",
     .add_bos = true,
     .add_eos = false,
     .add_sep = false,
     .add_space_prefix = true,
     .ids = {.bos = 1, .eos = 2, .unk = 0}},
    {.model = "t5",
     .add_bos = false,
     .add_eos = true,
     .add_sep = false,
     .add_space_prefix = true,
     .ids = {.eos = 1, .unk = 2, .pad = 0}},
    {.model = "bert",
     .add_bos = true,
     .add_eos = false,
     .add_sep = true,
     .add_space_prefix = true,
     .ids = {.bos = 101, .unk = 100, .pad = 0, .sep = 102, .cls = 101, .mask = 103}},
};
constexpr KindDefaults kOtherKind{};

// Spellings that end a turn in common chat formats, if they are single tokens.
constexpr std::string_view kEndMarkers[] = {"<|im_end|>",
                                            "<|eot_id|>",
                                            "<|eom_id|>",
                                            "<|eot|>",
                                            "<|end|>",
                                            "<|return|>",
                                            "<|call|>",
                                            "<|flush|>",
                                            "<|calls|>",
                                            "<end_of_turn>",
                                            "<turn|>",
                                            "<|tool_response>",
                                            "<|endoftext|>",
                                            "<|end_of_text|>",
                                            "<end_of_utterance>",
                                            "<｜end▁of▁sentence｜>",
                                            "</s>",
                                            "<eos>",
                                            "<EOT>",
                                            "_<EOT>",
                                            "[EOT]",
                                            "[EOS]",
                                            "[|endofturn|]",
                                            "<|END_OF_TURN_TOKEN|>",
                                            "[e~["};

struct RoleNames {
    int32_t SpecialIds::*role;
    bool ends;  // whether generation stops at it
    std::span<const std::string_view> names;
};

constexpr std::string_view kFimPrefix[] = {
    "<|fim_prefix|>",  "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>",
    "<|code_prefix|>", "<|prefix|>",   "▁<PRE>",       "<PRE>"};
constexpr std::string_view kFimSuffix[] = {
    "<|fim_suffix|>",  "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>",
    "<|code_suffix|>", "<|suffix|>",   "▁<SUF>",       "<SUF>"};
constexpr std::string_view kFimMiddle[] = {"<|fim_middle|>",  "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",
                                           "<|code_middle|>", "<|middle|>",   "▁<MID>",       "<MID>"};
constexpr std::string_view kFimPad[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"};
constexpr std::string_view kFimRepo[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
                                         "<reponame>"};
constexpr std::string_view kFimSeparator[] = {"<|file_sep|>"};
constexpr std::string_view kTurnEnd[] = {"<|eot_id|>", "<|im_end|>",         "<|end|>", "<end_of_turn>",
                                         "<turn|>",    "<end_of_utterance>", "<EOT>",   "_<EOT>",
                                         "[EOT]",      "<|endoftext|>"};
constexpr std::string_view kMessageEnd[] = {"<|eom_id|>"};

constexpr RoleNames kRoles[] = {
    {&SpecialIds::eot, true, kTurnEnd},           {&SpecialIds::eom, true, kMessageEnd},
    {&SpecialIds::fim_prefix, false, kFimPrefix}, {&SpecialIds::fim_suffix, false, kFimSuffix},
    {&SpecialIds::fim_middle, false, kFimMiddle}, {&SpecialIds::fim_pad, true, kFimPad},
    {&SpecialIds::fim_repo, true, kFimRepo},      {&SpecialIds::fim_separator, true, kFimSeparator},
};

struct SpecialKey {
    const char* key;
    int32_t SpecialIds::*role;
};

// The older of two keys for a role comes first, so that the newer one overrides it.
constexpr SpecialKey kSpecialKeys[] = {
    {"tokenizer.ggml.bos_token_id", &SpecialIds::bos},
    {"tokenizer.ggml.eos_token_id", &SpecialIds::eos},
    {"tokenizer.ggml.eot_token_id", &SpecialIds::eot},
    {"tokenizer.ggml.eom_token_id", &SpecialIds::eom},
    {"tokenizer.ggml.unknown_token_id", &SpecialIds::unk},
    {"tokenizer.ggml.padding_token_id", &SpecialIds::pad},
    {"tokenizer.ggml.seperator_token_id", &SpecialIds::sep},  // the format's spelling
    {"tokenizer.ggml.cls_token_id", &SpecialIds::cls},
    {"tokenizer.ggml.mask_token_id", &SpecialIds::mask},
    {"tokenizer.ggml.prefix_token_id", &SpecialIds::fim_prefix},
    {"tokenizer.ggml.suffix_token_id", &SpecialIds::fim_suffix},
    {"tokenizer.ggml.middle_token_id", &SpecialIds::fim_middle},
    {"tokenizer.ggml.fim_pre_token_id", &SpecialIds::fim_prefix},
    {"tokenizer.ggml.fim_suf_token_id", &SpecialIds::fim_suffix},
    {"tokenizer.ggml.fim_mid_token_id", &SpecialIds::fim_middle},
    {"tokenizer.ggml.fim_pad_token_id", &SpecialIds::fim_pad},
    {"tokenizer.ggml.fim_rep_token_id", &SpecialIds::fim_repo},
    {"tokenizer.ggml.fim_sep_token_id", &SpecialIds::fim_separator},
};

std::optional<uint8_t> parse_byte_token(std::string_view text) {
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
    int value = 0;
    for (const char c : text.substr(3, 2)) {
        int digit;
        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else
            return std::nullopt;
        value = value * 16 + digit;
    }
    return static_cast<uint8_t>(value);
}

/// Whether the spelling is so distinctive that it is never plain text.
bool is_distinctive(std::string_view text) {
    return text.substr(0, 2) == "<|" || text.substr(0, 4) == "<｜" || text == "<end_of_turn>" ||
           text == "<turn|>" || text == "<end_of_utterance>";
}

const KindDefaults& defaults_of(std::string_view model) {
    for (const KindDefaults& kind : kKinds)
        if (kind.model == model) return kind;
    return kOtherKind;
}

/// An optional array parallel to the tokens: null if absent.
Result<const gguf::Value*> parallel_array(const gguf::File& file, const char* key, size_t n_tokens) {
    const gguf::Value* value = file.find(key);
    if (!value) return nullptr;
    if (!value->is_array())
        return fail(ErrorCode::Malformed, "key '%s': expected an array, found %s", key,
                    gguf::value_type_name(value->type()));
    if (value->size() != n_tokens)
        return fail(ErrorCode::Malformed,
                    "key '%s': expected %zu elements, one for each of '%s', found %" PRIu64, key, n_tokens,
                    kTokensKey, value->size());
    return value;
}

}  // namespace

Result<Vocab> Vocab::load(const gguf::File& file) {
    Vocab vocab;
    TSR_TRY(const std::string_view model, file.get_string("tokenizer.ggml.model"));
    TSR_TRY(const std::string_view pre, file.get_string_or("tokenizer.ggml.pre", ""));
    vocab.model_ = model;
    vocab.pre_ = pre;
    TSR_TRY_VOID(vocab.load_tokens(file));
    TSR_TRY_VOID(vocab.load_scores(file));
    TSR_TRY_VOID(vocab.load_types(file));
    vocab.index_texts();
    TSR_TRY_VOID(vocab.load_special_ids(file));
    vocab.settle_markers();
    vocab.find_roles_by_name();
    vocab.collect_end_ids();
    TSR_TRY_VOID(vocab.load_flags(file));
    return vocab;
}

Result<void> Vocab::load_tokens(const gguf::File& file) {
    TSR_TRY(const gguf::Value tokens, file.get_array(kTokensKey, gguf::ValueType::String));
    if (tokens.size() == 0)
        return fail(ErrorCode::Malformed, "key '%s': expected at least one token, found none", kTokensKey);
    if (tokens.size() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
        return fail(ErrorCode::Unsupported, "key '%s': expected at most 2^31 - 1 tokens, found %" PRIu64,
                    kTokensKey, tokens.size());
    const size_t n = static_cast<size_t>(tokens.size());
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) n_bytes += tokens.at(i).as_string().value_or("").size();
    bytes_.reserve(n_bytes);
    texts_.reserve(n);
    for (size_t i = 0; i < n; i++) {
        const std::string_view text = tokens.at(i).as_string().value_or("");
        const size_t begin = bytes_.size();
        bytes_.insert(bytes_.end(), text.begin(), text.end());
        texts_.emplace_back(bytes_.data() + begin, text.size());
    }
    return {};
}

Result<void> Vocab::load_scores(const gguf::File& file) {
    TSR_TRY(const gguf::Value* scores, parallel_array(file, kScoresKey, texts_.size()));
    scores_.assign(texts_.size(), 0.0f);
    if (!scores) {
        if (model_ != "llama") return {};
        log::warn("key '%s' is absent: taking the order of the tokens as the order of merges", kScoresKey);
        for (size_t i = 0; i < scores_.size(); i++) scores_[i] = -static_cast<float>(i);
        return {};
    }
    for (size_t i = 0; i < scores_.size(); i++) {
        const std::optional<double> score = scores->at(i).as_float();
        if (!score || std::isnan(*score))
            return fail(ErrorCode::Malformed, "key '%s': expected a number for token %zu, found %s",
                        kScoresKey, i, scores->at(i).to_string().c_str());
        scores_[i] = static_cast<float>(*score);
    }
    return {};
}

Result<void> Vocab::load_types(const gguf::File& file) {
    TSR_TRY(const gguf::Value* types, parallel_array(file, kTypesKey, texts_.size()));
    types_.assign(texts_.size(), TokenType::Normal);
    if (!types) return {};
    size_t n_bad_types = 0, n_bad_bytes = 0;
    for (size_t i = 0; i < types_.size(); i++) {
        const std::optional<int64_t> type = types->at(i).as_int();
        if (!type)
            return fail(ErrorCode::Malformed, "key '%s': expected integers, found %s", kTypesKey,
                        gguf::value_type_name(types->element_type()));
        if (*type < 1 || *type > 6) {
            n_bad_types++;
        } else if (*type == 6 && !parse_byte_token(texts_[i])) {
            n_bad_bytes++;
        } else {
            types_[i] = static_cast<TokenType>(*type);
        }
    }
    if (n_bad_types)
        log::warn("key '%s': %zu types outside 1..6 taken as normal tokens", kTypesKey, n_bad_types);
    if (n_bad_bytes)
        log::warn("key '%s': %zu byte tokens not spelled <0xNN> taken as normal tokens", kTypesKey,
                  n_bad_bytes);
    return {};
}

void Vocab::index_texts() {
    ids_.reserve(texts_.size());
    for (int32_t id = 0; id < size(); id++) {
        if (contains(id + TextIndex::kAhead)) ids_.prefetch(text(id + TextIndex::kAhead));
        ids_.add(text(id), id);
    }
}

Result<void> Vocab::load_special_ids(const gguf::File& file) {
    const SpecialIds& usual = defaults_of(model_).ids;
    for (const auto& [key, role] : kSpecialKeys)
        special_.*role = contains(usual.*role) && is_hidden(usual.*role) ? usual.*role : kNoToken;
    for (const auto& [key, role] : kSpecialKeys) {
        const gguf::Value* value = file.find(key);
        if (!value) continue;
        const std::optional<int64_t> id = value->as_int();
        if (!id)
            return fail(ErrorCode::Malformed, "key '%s': expected a token id, found %s", key,
                        gguf::value_type_name(value->type()));
        if (*id == -1 || *id == std::numeric_limits<uint32_t>::max()) {
            log::warn("key '%s': %" PRId64 " taken as \"no such token\"", key, *id);
            special_.*role = kNoToken;
            continue;
        }
        if (*id < 0 || *id >= size())
            return fail(ErrorCode::Malformed,
                        "key '%s': expected an id in 0..%d, the vocabulary's size less one, found %" PRId64,
                        key, size() - 1, *id);
        special_.*role = static_cast<int32_t>(*id);
    }
    return {};
}

void Vocab::settle_markers() {
    // Some converters write these as user-defined or even normal tokens, with which any text could contain an
    // end of turn.
    const auto settle = [&](std::string_view name) {
        const int32_t id = find(name);
        if (id == kNoToken) return;
        TokenType& type = types_[static_cast<size_t>(id)];
        if (type == TokenType::UserDefined) {
            type = TokenType::Control;
        } else if (type == TokenType::Normal && is_distinctive(name)) {
            log::warn("token %d '%s' is typed as plain text: taken as a control token", id,
                      printable(name).c_str());
            type = TokenType::Control;
        }
    };
    for (const std::string_view name : kEndMarkers) settle(name);
    for (const RoleNames& role : kRoles)
        for (const std::string_view name : role.names) settle(name);
}

void Vocab::find_roles_by_name() {
    for (const auto& [role, ends, names] : kRoles) {
        for (const std::string_view name : names) {
            if (special_.*role != kNoToken) break;
            const int32_t id = find(name);
            if (id != kNoToken && type(id) == TokenType::Control) special_.*role = id;
        }
    }
}

void Vocab::collect_end_ids() {
    const auto add = [&](int32_t id) {
        if (id != kNoToken) end_ids_.push_back(id);
    };
    const auto control = [&](std::string_view name) {
        const int32_t id = find(name);
        return id != kNoToken && type(id) == TokenType::Control ? id : kNoToken;
    };
    for (const std::string_view name : kEndMarkers) add(control(name));
    for (const RoleNames& role : kRoles)
        if (role.ends) add(special_.*role.role);

    // Not ends of generation in formats with other end tokens: <|end|> separates the channels of the harmony
    // format, and </s> is unused in vocabularies that end a turn with a tool's response.
    const bool returns = control("<|return|>") != kNoToken || control("<|flush|>") != kNoToken;
    const bool calls = control("<|call|>") != kNoToken || control("<|calls|>") != kNoToken;
    if (returns && calls) std::erase(end_ids_, control("<|end|>"));
    if (control("<|tool_response>") != kNoToken) std::erase(end_ids_, control("</s>"));

    add(special_.eos);
    std::sort(end_ids_.begin(), end_ids_.end());
    end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
}

Result<void> Vocab::load_flags(const gguf::File& file) {
    const KindDefaults& kind = defaults_of(model_);
    const PreTokenizer* pre = model_ == "gpt2" ? find_pre_tokenizer(pre_) : nullptr;
    // A default applies only if the token exists; a key that cannot be applied gives a warning.
    const auto frames = [&](const char* key, bool usual, int32_t id) -> Result<bool> {
        TSR_TRY(const bool wanted, file.get_bool_or(key, usual));
        if (wanted && id == kNoToken && file.find(key))
            log::warn("key '%s' is set, but the vocabulary has no such token", key);
        return wanted && id != kNoToken;
    };
    TSR_TRY(add_bos_,
            frames("tokenizer.ggml.add_bos_token", kind.add_bos || (pre && pre->add_bos), special_.bos));
    TSR_TRY(add_eos_, frames("tokenizer.ggml.add_eos_token", kind.add_eos, special_.eos));
    TSR_TRY(add_sep_,
            frames("tokenizer.ggml.add_sep_token", kind.add_sep || (pre && pre->add_sep), special_.sep));
    TSR_TRY(add_space_prefix_, file.get_bool_or("tokenizer.ggml.add_space_prefix", kind.add_space_prefix));
    // WordPiece puts a space before every word; byte-level BPE takes spaces from the text.
    if (model_ == "bert") add_space_prefix_ = true;
    if (model_ == "gpt2") add_space_prefix_ = false;
    TSR_TRY(remove_extra_whitespaces_, file.get_bool_or("tokenizer.ggml.remove_extra_whitespaces", false));

    // Phi-3's special tokens absorb white space after them; GGUF has no key for that.
    TSR_TRY(const std::string_view architecture, file.get_string_or("general.architecture", ""));
    TSR_TRY(const std::string_view name, file.get_string_or("general.name", ""));
    const std::string lower = to_lower(name);
    strips_right_ =
        model_ == "llama" && (architecture == "phi3" || lower.find("phi-3") != std::string::npos ||
                              lower.find("phi3") != std::string::npos);
    return {};
}

bool Vocab::keeps_right_space(int32_t id) const {
    return type(id) == TokenType::Unknown || id == special_.unk || id == special_.bos ||
           text(id) == "<|endoftext|>";
}

uint8_t Vocab::byte_of(int32_t id) const { return parse_byte_token(text(id)).value_or(0); }

int32_t Vocab::find(std::string_view text) const { return ids_.find(text); }

bool Vocab::is_end(int32_t id) const { return std::binary_search(end_ids_.begin(), end_ids_.end(), id); }

}  // namespace tessera::text
