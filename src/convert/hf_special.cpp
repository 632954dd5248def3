// Writes the keys of a tokenizer: the content read by hf_tokenizer.cpp, the ids of special tokens, and chat
// templates. If several files name an id, the first of tokenizer_config.json, config.json,
// generation_config.json is used.
#include <algorithm>

#include "common/log.h"
#include "common/strings.h"
#include "src/convert/hf_tokenizer.h"

namespace tessera::convert {

namespace {

struct SpecialRole {
    const char* name;  // NAME_token in tokenizer_config.json, NAME_token_id in the others
    const char* key;
};
constexpr SpecialRole kRoles[] = {
    {"bos", "bos_token_id"},     {"eos", "eos_token_id"},       {"unk", "unknown_token_id"},
    {"pad", "padding_token_id"}, {"sep", "seperator_token_id"},  // the format's spelling
    {"cls", "cls_token_id"},     {"mask", "mask_token_id"},
};
/// Roles for further ids that end a text.
constexpr const char* kMoreEnds[] = {"eot_token_id", "eom_token_id"};

struct SamplingKey {
    const char* hf;
    const char* gguf;
    bool is_integer;
};
constexpr SamplingKey kSampling[] = {
    {"temperature", "temp", false},
    {"top_k", "top_k", true},
    {"top_p", "top_p", false},
    {"min_p", "min_p", false},
    {"repetition_penalty", "penalty_repeat", false},
};

class Keys {
  public:
    Keys(const HfTokenizer& tokenizer, const HfCheckpoint& checkpoint, gguf::Writer& writer)
        : tokenizer_(tokenizer), checkpoint_(checkpoint), writer_(writer) {}

    Result<void> write();

  private:
    void write_vocabulary();
    Result<int64_t> role(const SpecialRole& role) const;
    Result<std::vector<int64_t>> ids(const JsonValue& file, const char* where, const std::string& key) const;
    Result<void> write_ends(int64_t eos);
    Result<void> write_templates();
    void write_sampling();

    const HfTokenizer& tokenizer_;
    const HfCheckpoint& checkpoint_;
    gguf::Writer& writer_;
    std::optional<JsonValue> settings_, generation_;
};

void Keys::write_vocabulary() {
    const std::string k = "tokenizer.ggml.";
    writer_.set_string(k + "model", tokenizer_.model);
    writer_.set_string(k + "pre", tokenizer_.pre);
    writer_.set_strings(k + "tokens", tokenizer_.tokens);
    if (!tokenizer_.scores.empty())
        writer_.set_array(k + "scores", gguf::ValueType::F32, std::as_bytes(std::span(tokenizer_.scores)));
    writer_.set_array(k + "token_type", gguf::ValueType::I32, std::as_bytes(std::span(tokenizer_.types)));
    if (!tokenizer_.merges.empty()) writer_.set_strings(k + "merges", tokenizer_.merges);
    writer_.set_bool(k + "add_bos_token", tokenizer_.add_bos);
    writer_.set_bool(k + "add_eos_token", tokenizer_.add_eos);
    if (tokenizer_.add_space_prefix) writer_.set_bool(k + "add_space_prefix", *tokenizer_.add_space_prefix);
}

/// A number, a list of numbers, or nothing.
Result<std::vector<int64_t>> Keys::ids(const JsonValue& file, const char* where,
                                       const std::string& key) const {
    std::vector<int64_t> out;
    const JsonValue* value = file.find(key);
    if (!value || value->is(JsonValue::Kind::Null)) return out;
    const auto add = [&](const JsonValue& item) -> Result<void> {
        const auto id = item.is(JsonValue::Kind::Number) ? parse_int(item.text) : std::nullopt;
        // -1 stands for none.
        if (id && *id == -1) return {};
        if (!id || *id < 0 || static_cast<size_t>(*id) >= tokenizer_.tokens.size())
            return fail(ErrorCode::Malformed, "%s: '%s': expected an id below %zu, found '%s'", where,
                        key.c_str(), tokenizer_.tokens.size(), printable(item.text, 40).c_str());
        out.push_back(*id);
        return {};
    };
    if (!value->is(JsonValue::Kind::Array)) {
        TSR_TRY_VOID(add(*value));
        return out;
    }
    for (const JsonValue& item : value->items) TSR_TRY_VOID(add(item));
    return out;
}

Result<int64_t> Keys::role(const SpecialRole& role) const {
    const std::string name = role.name;
    const JsonValue* token = settings_ ? settings_->find(name + "_token") : nullptr;
    if (token && token->is(JsonValue::Kind::Object)) token = token->find("content");
    if (token && token->is(JsonValue::Kind::String)) {
        const int32_t id = tokenizer_.find(token->text);
        if (id >= 0) return id;
        log::warn("tokenizer_config.json: '%s_token': '%s' is not a token of the vocabulary", name.c_str(),
                  printable(token->text).c_str());
    }
    if (const JsonValue* value = checkpoint_.config().find(name + "_token_id")) {
        JsonValue file{.kind = JsonValue::Kind::Object};
        file.members.emplace_back(name + "_token_id", *value);
        TSR_TRY(const auto found, ids(file, "config.json", name + "_token_id"));
        if (!found.empty()) return found[0];
    }
    if (generation_) {
        TSR_TRY(const auto found, ids(*generation_, "generation_config.json", name + "_token_id"));
        if (!found.empty()) return found[0];
    }
    if (name != "unk") return -1;
    const auto unknown = std::find(tokenizer_.types.begin(), tokenizer_.types.end(), 2);
    return unknown == tokenizer_.types.end() ? -1 : unknown - tokenizer_.types.begin();
}

/// If files list several end tokens, those besides eos become the end of a turn and of a message.
Result<void> Keys::write_ends(int64_t eos) {
    TSR_TRY(std::vector<int64_t> all, ids(checkpoint_.config().root(), "config.json", "eos_token_id"));
    if (generation_) {
        TSR_TRY(const auto more, ids(*generation_, "generation_config.json", "eos_token_id"));
        all.insert(all.end(), more.begin(), more.end());
    }
    std::vector<int64_t> rest;
    for (const int64_t id : all)
        if (id != eos && std::find(rest.begin(), rest.end(), id) == rest.end()) rest.push_back(id);
    for (size_t i = 0; i < std::min(rest.size(), std::size(kMoreEnds)); i++)
        writer_.set_int(std::string("tokenizer.ggml.") + kMoreEnds[i], gguf::ValueType::U32, rest[i]);
    return {};
}

Result<void> Keys::write_templates() {
    const char* kKey = "tokenizer.chat_template";
    const auto text = read_text_file(checkpoint_.path_of("chat_template.jinja"));
    if (text) {
        writer_.set_string(kKey, *text);
        return {};
    }
    if (text.error().code != ErrorCode::NotFound) return tl::unexpected<Error>(text.error());
    const JsonValue* value = settings_ ? settings_->find("chat_template") : nullptr;
    std::optional<JsonValue> own;
    if (!value) {
        TSR_TRY(own, read_optional_json(checkpoint_.path_of("chat_template.json")));
        value = own ? own->find("chat_template") : nullptr;
    }
    if (!value || value->is(JsonValue::Kind::Null)) return {};
    if (value->is(JsonValue::Kind::String)) {
        writer_.set_string(kKey, value->text);
        return {};
    }
    std::vector<std::string> names;
    for (const JsonValue& item : value->items) {
        const JsonValue* name = item.find("name");
        const JsonValue* body = item.find("template");
        if (!name || !body || !name->is(JsonValue::Kind::String) || !body->is(JsonValue::Kind::String))
            return fail(ErrorCode::Malformed, "chat_template: expected a name and a template in each entry");
        if (name->text == "default") {
            writer_.set_string(kKey, body->text);
            continue;
        }
        names.push_back(name->text);
        writer_.set_string(std::string(kKey) + "." + name->text, body->text);
    }
    if (!names.empty()) writer_.set_strings("tokenizer.chat_templates", names);
    return {};
}

/// The sampling settings that the model's authors recommend; values that are not numbers are ignored.
void Keys::write_sampling() {
    for (const SamplingKey& row : kSampling) {
        const JsonValue* value = generation_ ? generation_->find(row.hf) : nullptr;
        if (!value || !value->is(JsonValue::Kind::Number)) continue;
        const std::string key = std::string("general.sampling.") + row.gguf;
        const auto whole = parse_int(value->text);
        const auto number = parse_double(value->text);
        if (row.is_integer && whole && *whole >= 0 && *whole <= INT32_MAX)
            writer_.set_int(key, gguf::ValueType::I32, *whole);
        else if (!row.is_integer && number && *number >= 0 && *number <= 1e6)
            writer_.set_float(key, *number);
    }
}

Result<void> Keys::write() {
    TSR_TRY(settings_, read_optional_json(checkpoint_.path_of("tokenizer_config.json")));
    TSR_TRY(generation_, read_optional_json(checkpoint_.path_of("generation_config.json")));
    write_vocabulary();
    for (const SpecialRole& row : kRoles) {
        TSR_TRY(const int64_t id, role(row));
        if (id >= 0) writer_.set_int(std::string("tokenizer.ggml.") + row.key, gguf::ValueType::U32, id);
        if (std::string_view(row.name) == "eos") TSR_TRY_VOID(write_ends(id));
    }
    TSR_TRY_VOID(write_templates());
    write_sampling();
    return {};
}

}  // namespace

Result<void> write_tokenizer(const HfTokenizer& tokenizer, const HfCheckpoint& checkpoint,
                             gguf::Writer& writer) {
    return Keys(tokenizer, checkpoint, writer).write();
}

}  // namespace tessera::convert
