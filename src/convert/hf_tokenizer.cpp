// Tokenizers. A SentencePiece model is a tokenizer.model, or a tokenizer.json of BPE with byte fallback,
// whose merges then replace the scores; byte-level BPE is a tokenizer.json. hf_pretokenizer.cpp recognizes
// the pre-tokenizer. Next: hf_special.cpp.
#include "src/convert/hf_tokenizer.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "common/mapped_file.h"
#include "common/strings.h"
#include "src/convert/hf_pretokenizer.h"
#include "src/convert/sentencepiece_model.h"
#include "src/text/pretokenizers.h"

namespace tessera::convert {

namespace {

enum TokenKind : int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
};

/// Scores of added tokens, and of tokens that no merge produces: below all that merges produce.
constexpr float kNoScore = -1000.0f, kUnmerged = -1e9f;

struct AddedToken {
    std::string text;
    bool special = false;
};
using AddedTokens = std::map<int64_t, AddedToken>;

std::string text_of(const JsonValue& object, std::string_view name) {
    const JsonValue* value = object.find(name);
    return value && value->is(JsonValue::Kind::String) ? value->text : "";
}

bool truth_of(const JsonValue& object, std::string_view name, bool usual) {
    const JsonValue* value = object.find(name);
    return value && value->is(JsonValue::Kind::Boolean) ? value->boolean : usual;
}

std::optional<int64_t> id_of(const JsonValue& value) {
    const auto id = value.is(JsonValue::Kind::Number) ? parse_int(value.text) : std::nullopt;
    return id && *id >= 0 ? id : std::nullopt;
}

/// <0xNN>
bool is_byte_token(std::string_view text) {
    const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
    return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' && is_hex(text[3]) &&
           is_hex(text[4]);
}

class Reader {
  public:
    Reader(const HfCheckpoint& checkpoint, int64_t n_vocab, const std::string& pre)
        : checkpoint_(checkpoint), n_vocab_(static_cast<size_t>(n_vocab)), pre_(pre) {}

    Result<HfTokenizer> read();

  private:
    Result<bool> read_sentencepiece();
    Result<void> read_vocab_and_merges();
    Result<void> read_tokenizer_json();
    Result<void> read_vocabulary(const JsonValue& vocab);
    Result<void> read_merges(const JsonValue& model, bool has_scores);
    Result<void> read_merge(const JsonValue& item, std::string& left, std::string& right) const;
    Result<void> check_normalizer(bool is_byte_level) const;
    Result<void> collect_added();
    Result<void> apply_added();
    Result<void> put(int64_t id, std::string text, int32_t type, float score);
    void fill_up();
    bool starts_with_bos() const;

    const HfCheckpoint& checkpoint_;
    const size_t n_vocab_;
    const std::string& pre_;
    std::optional<JsonValue> json_, settings_;  // tokenizer.json, tokenizer_config.json
    AddedTokens added_;
    HfTokenizer out_;
};

Result<void> Reader::put(int64_t id, std::string text, int32_t type, float score) {
    const auto at = static_cast<size_t>(id);
    if (at >= n_vocab_)
        return fail(ErrorCode::Malformed,
                    "tokenizer: token '%s' has id %lld, but the embedding table has %zu rows (vocab_size of "
                    "config.json)",
                    printable(text).c_str(), static_cast<long long>(id), n_vocab_);
    if (at >= out_.tokens.size()) {
        out_.tokens.resize(at + 1);
        out_.types.resize(at + 1, 0);
        out_.scores.resize(at + 1, kNoScore);
    }
    out_.tokens[at] = std::move(text);
    out_.types[at] = type;
    out_.scores[at] = score;
    return {};
}

/// False if there is no such file, or if it is of another kind and there is a tokenizer.json.
Result<bool> Reader::read_sentencepiece() {
    const auto file = MappedFile::open(checkpoint_.path_of("tokenizer.model"));
    if (!file) {
        if (file.error().code == ErrorCode::NotFound) return false;
        return tl::unexpected<Error>(file.error());
    }
    auto model = parse_sentencepiece(file->bytes());
    if (!model) {
        if (json_) return false;
        const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                                    file->bytes().size());
        if (text.starts_with("IQ== 0\n"))
            return fail(
                ErrorCode::Unsupported,
                "tokenizer.model: expected a SentencePiece model, found a list of ranks (tiktoken); the "
                "tokenizer.json of the same model can be used instead");
        return fail_in("tokenizer.model (and there is no tokenizer.json)", std::move(model.error()));
    }
    if (model->kind != SentencePieceModel::Kind::Bpe)
        return fail(ErrorCode::Unsupported, "tokenizer.model: expected a model of type BPE, found type %d",
                    static_cast<int>(model->kind));
    out_.model = "llama";
    out_.pre = "default";
    for (size_t i = 0; i < model->pieces.size(); i++) {
        const auto& piece = model->pieces[i];
        TSR_TRY_VOID(put(static_cast<int64_t>(i), piece.text, piece.type, piece.score));
    }
    out_.add_bos = true;
    out_.add_space_prefix = model->add_dummy_prefix;
    return true;
}

Result<void> Reader::read_vocabulary(const JsonValue& vocab) {
    if (!vocab.is(JsonValue::Kind::Object) || vocab.members.empty())
        return fail(ErrorCode::Malformed, "tokenizer.json: model.vocab: expected tokens and ids, found none");
    for (const auto& [token, value] : vocab.members) {
        const auto id = id_of(value);
        if (!id)
            return fail(ErrorCode::Malformed,
                        "tokenizer.json: model.vocab: token '%s': expected an id, found '%s'",
                        printable(token).c_str(), printable(value.text, 40).c_str());
        const auto at = static_cast<size_t>(*id);
        if (at < out_.tokens.size() && out_.types[at] != 0)
            return fail(ErrorCode::Malformed,
                        "tokenizer.json: model.vocab: tokens '%s' and '%s' share id %zu",
                        printable(out_.tokens[at]).c_str(), printable(token).c_str(), at);
        TSR_TRY_VOID(put(*id, token, kNormal, kUnmerged));
    }
    return {};
}

/// "left right", or a list of the two.
Result<void> Reader::read_merge(const JsonValue& item, std::string& left, std::string& right) const {
    if (item.is(JsonValue::Kind::String)) {
        const size_t space = item.text.find(' ', 1);
        if (space != std::string::npos && space + 1 < item.text.size()) {
            left = item.text.substr(0, space);
            right = item.text.substr(space + 1);
            return {};
        }
    } else if (item.items.size() == 2 && item.items[0].is(JsonValue::Kind::String) &&
               item.items[1].is(JsonValue::Kind::String)) {
        left = item.items[0].text;
        right = item.items[1].text;
        if (!left.empty() && !right.empty()) return {};
    }
    return fail(ErrorCode::Malformed, "tokenizer.json: model.merges: expected pairs of tokens, found '%s'",
                printable(item.text).c_str());
}

Result<void> Reader::read_merges(const JsonValue& model, bool has_scores) {
    const JsonValue* merges = model.find("merges");
    if (!merges || !merges->is(JsonValue::Kind::Array))
        return fail(ErrorCode::Malformed, "tokenizer.json: model.merges: expected a list, found none");
    std::unordered_map<std::string_view, size_t> ids;
    if (has_scores)
        for (size_t i = 0; i < out_.tokens.size(); i++) ids.emplace(out_.tokens[i], i);
    std::string left, right;
    for (size_t rank = 0; rank < merges->items.size(); rank++) {
        TSR_TRY_VOID(read_merge(merges->items[rank], left, right));
        if (!has_scores) {
            if (left.find(' ') != left.npos || right.find(' ') != right.npos)
                return fail(
                    ErrorCode::Unsupported,
                    "tokenizer.json: model.merges: expected tokens without spaces, found '%s' and '%s'",
                    printable(left).c_str(), printable(right).c_str());
            out_.merges.push_back(left + " " + right);
            continue;
        }
        // The first pair that produces a token determines its position in the order.
        const auto made = ids.find(left + right);
        if (made != ids.end() && out_.scores[made->second] == kUnmerged)
            out_.scores[made->second] = -static_cast<float>(rank);
    }
    return {};
}

/// Checks that the normalization of text matches that of the scheme.
Result<void> Reader::check_normalizer(bool is_byte_level) const {
    const JsonValue* normalizer = json_->find("normalizer");
    if (!normalizer || normalizer->is(JsonValue::Kind::Null)) return {};
    std::vector<const JsonValue*> steps = {normalizer};
    if (text_of(*normalizer, "type") == "Sequence" && normalizer->find("normalizers")) {
        steps.clear();
        for (const JsonValue& step : normalizer->find("normalizers")->items) steps.push_back(&step);
    }
    for (const JsonValue* step : steps) {
        const std::string type = text_of(*step, "type");
        // NFC hardly ever changes a text, and no GGUF tokenizer of this kind applies it.
        const bool is_ours = is_byte_level ? type == "NFC" : type == "Prepend" || type == "Replace";
        if (!is_ours)
            return fail(ErrorCode::Unsupported,
                        "tokenizer.json: normalizer: expected %s, found '%s', which is not supported",
                        is_byte_level ? "none or NFC" : "Prepend and Replace", printable(type).c_str());
    }
    return {};
}

/// vocab.json and merges.txt of older folders: equivalent to a tokenizer.json without a pre-tokenizer.
Result<void> Reader::read_vocab_and_merges() {
    TSR_TRY(auto vocab, read_optional_json(checkpoint_.path_of("vocab.json")));
    const auto text = read_text_file(checkpoint_.path_of("merges.txt"));
    if (!vocab || !text) return {};
    JsonValue merges{.kind = JsonValue::Kind::Array};
    for (const std::string_view line : split(*text, '\n'))
        if (!line.empty() && !line.starts_with("#version"))
            merges.items.push_back({.kind = JsonValue::Kind::String, .text = std::string(line)});
    JsonValue model{.kind = JsonValue::Kind::Object};
    model.members.emplace_back("type", JsonValue{.kind = JsonValue::Kind::String, .text = "BPE"});
    model.members.emplace_back("vocab", std::move(*vocab));
    model.members.emplace_back("merges", std::move(merges));
    json_ = JsonValue{.kind = JsonValue::Kind::Object};
    json_->members.emplace_back("model", std::move(model));
    return {};
}

Result<void> Reader::read_tokenizer_json() {
    const JsonValue* model = json_->find("model");
    const std::string type = model ? text_of(*model, "type") : "";
    if (type != "BPE")
        return fail(ErrorCode::Unsupported, "tokenizer.json: model: expected type BPE, found '%s'",
                    printable(type).c_str());
    const JsonValue* vocab = model->find("vocab");
    if (!vocab) return fail(ErrorCode::Malformed, "tokenizer.json: model.vocab: expected tokens, found none");
    TSR_TRY_VOID(read_vocabulary(*vocab));
    const bool is_byte_level = !truth_of(*model, "byte_fallback", false);
    TSR_TRY_VOID(check_normalizer(is_byte_level));
    TSR_TRY_VOID(read_merges(*model, !is_byte_level));
    if (is_byte_level) {
        out_.model = "gpt2";
        out_.scores.clear();
        out_.pre = pre_;
        if (pre_.empty()) {
            TSR_TRY(out_.pre, recognise_pre_tokenizer(*json_));
        }
        return {};
    }
    out_.model = "llama";
    out_.pre = "default";
    const std::string unk = text_of(*model, "unk_token");
    for (size_t i = 0; i < out_.tokens.size(); i++) {
        if (is_byte_token(out_.tokens[i])) out_.types[i] = kByte;
        if (!unk.empty() && out_.tokens[i] == unk) out_.types[i] = kUnknown;
    }
    // A Prepend step adds a space before the text.
    const JsonValue* normalizer = json_->find("normalizer");
    bool prepends = normalizer && text_of(*normalizer, "type") == "Prepend";
    if (const JsonValue* steps = normalizer ? normalizer->find("normalizers") : nullptr)
        for (const JsonValue& step : steps->items) prepends = prepends || text_of(step, "type") == "Prepend";
    const JsonValue* rules = json_->find("pre_tokenizer");
    if (rules && text_of(*rules, "type") == "Metaspace") {
        const std::string scheme = text_of(*rules, "prepend_scheme");
        prepends = scheme.empty() ? truth_of(*rules, "add_prefix_space", true) : scheme != "never";
    }
    out_.add_space_prefix = prepends;
    return {};
}

/// Tokens added to the trained ones: from tokenizer.json, else from tokenizer_config.json.
Result<void> Reader::collect_added() {
    const auto add = [&](std::optional<int64_t> id, const JsonValue& token,
                         const char* where) -> Result<void> {
        const std::string text = text_of(token, "content");
        if (!id || text.empty())
            return fail(ErrorCode::Malformed, "%s: expected added tokens with id and content, found '%s'",
                        where, printable(text).c_str());
        added_[*id] = {text, truth_of(token, "special", false)};
        return {};
    };
    if (const JsonValue* list = json_ ? json_->find("added_tokens") : nullptr) {
        for (const JsonValue& token : list->items) {
            const JsonValue* id = token.find("id");
            TSR_TRY_VOID(add(id ? id_of(*id) : std::nullopt, token, "tokenizer.json: added_tokens"));
        }
        return {};
    }
    if (const JsonValue* list = settings_ ? settings_->find("added_tokens_decoder") : nullptr) {
        for (const auto& [id, token] : list->members) {
            const auto number = parse_int(id);
            TSR_TRY_VOID(add(number && *number >= 0 ? number : std::nullopt, token,
                             "tokenizer_config.json: added_tokens_decoder"));
        }
        return {};
    }
    TSR_TRY(const auto file, read_optional_json(checkpoint_.path_of("added_tokens.json")));
    if (!file) return {};
    for (const auto& [token, value] : file->members) {
        const auto id = id_of(value);
        if (!id || token.empty())
            return fail(ErrorCode::Malformed, "added_tokens.json: token '%s': expected an id, found '%s'",
                        printable(token).c_str(), printable(value.text, 40).c_str());
        added_[*id] = {token, token.starts_with("<|") && token.ends_with("|>")};
    }
    return {};
}

Result<void> Reader::apply_added() {
    for (auto& [id, token] : added_) {
        const auto at = static_cast<size_t>(id);
        const int32_t now = at < out_.types.size() ? out_.types[at] : 0;
        const int32_t type = token.special ? kControl : kUserDefined;
        if (now == kUnknown || now == kByte || (now == kControl && token.special)) continue;
        // SentencePiece files spell spaces as U+2581.
        std::string text = token.text;
        const float score = now != 0 && !out_.scores.empty() ? out_.scores[at] : kNoScore;
        TSR_TRY_VOID(put(id, std::move(text), type, score));
    }
    return {};
}

/// Fills unnamed ids: the embedding table is often larger than the vocabulary.
void Reader::fill_up() {
    out_.tokens.resize(n_vocab_);
    out_.types.resize(n_vocab_, 0);
    out_.scores.resize(n_vocab_, kNoScore);
    for (size_t i = 0; i < n_vocab_; i++) {
        if (out_.types[i] != 0) continue;
        out_.tokens[i] = strf("[PAD%zu]", i);
        out_.types[i] = kUnused;
    }
    if (out_.model == "gpt2") out_.scores.clear();
}

/// Whether the steps after encoding put a special token before every text.
bool Reader::starts_with_bos() const {
    const JsonValue* after = json_ ? json_->find("post_processor") : nullptr;
    if (!after) return false;
    const auto puts = [](const JsonValue& step) {
        const JsonValue* first =
            text_of(step, "type") == "TemplateProcessing" ? find_pointer(step, "/single/0") : nullptr;
        return first && first->find("SpecialToken");
    };
    if (puts(*after)) return true;
    const JsonValue* steps = after->find("processors");
    return steps && std::any_of(steps->items.begin(), steps->items.end(), puts);
}

Result<HfTokenizer> Reader::read() {
    TSR_TRY(json_, read_optional_json(checkpoint_.path_of("tokenizer.json")));
    TSR_TRY(settings_, read_optional_json(checkpoint_.path_of("tokenizer_config.json")));
    if (!pre_.empty() && !text::find_pre_tokenizer(pre_)) {
        std::vector<std::string_view> names;
        for (const text::PreTokenizer& row : text::pre_tokenizers()) names.push_back(row.name);
        const std::string_view nearest = nearest_name(pre_, names);
        return fail(ErrorCode::InvalidArgument,
                    "--pre: unknown pre-tokenizer '%s'%s%s (docs/reference/tokenizers.md)",
                    printable(pre_).c_str(), nearest.empty() ? "" : ": did you mean ",
                    std::string(nearest).c_str());
    }
    TSR_TRY(const bool has_model, read_sentencepiece());
    if (!has_model) {
        if (!json_) TSR_TRY_VOID(read_vocab_and_merges());
        if (!json_)
            return fail(
                ErrorCode::NotFound,
                "'%s': expected a tokenizer.model, a tokenizer.json, or vocab.json and merges.txt, found "
                "none",
                printable(checkpoint_.folder(), 400).c_str());
        TSR_TRY_VOID(read_tokenizer_json());
        out_.add_bos = starts_with_bos();
    }
    TSR_TRY_VOID(collect_added());
    TSR_TRY_VOID(apply_added());
    fill_up();
    if (settings_) {
        out_.add_bos = truth_of(*settings_, "add_bos_token", out_.add_bos);
        out_.add_eos = truth_of(*settings_, "add_eos_token", out_.add_eos);
        if (out_.add_space_prefix)
            out_.add_space_prefix = truth_of(*settings_, "add_prefix_space", *out_.add_space_prefix);
    }
    return std::move(out_);
}

}  // namespace

int32_t HfTokenizer::find(std::string_view token) const {
    const auto at = std::find(tokens.begin(), tokens.end(), token);
    return at == tokens.end() ? -1 : static_cast<int32_t>(at - tokens.begin());
}

Result<HfTokenizer> read_hf_tokenizer(const HfCheckpoint& checkpoint, int64_t n_vocab,
                                      const std::string& pre) {
    return Reader(checkpoint, n_vocab, pre).read();
}

}  // namespace tessera::convert
