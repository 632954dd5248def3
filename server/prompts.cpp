// The fields that all generating routes share, and the engine's request made from their values.
#include "server/prompts.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "server/error.h"
#include "server/routes.h"

namespace tessera::server {

namespace {

constexpr int kMaxChoices = 16;

constexpr Field kGenerationRows[] = {
    {"model", kText, 0, 4096, "Ignored: the server has one model."},
    {"stream", kFlag, 0, 0, "Send the text as events while it is generated; default false."},
    {"stream_options", kObject, 0, 0,
     "`include_usage`: send an event with the usage before the last one; default false."},
    {"n", kWhole, 1, kMaxChoices, "Completions of each prompt; default 1."},
    {"stop", kText | kList, 0, 0,
     "Stop strings, one or up to 16: a completion ends before the first that would appear."},
    {"ignore_eos", kFlag, 0, 0, "Ignore the end-of-generation token; default false."},
    {"grammar", kText, 0, 0, "Constrain the output to a GBNF grammar."},
    {"regex", kText, 0, 0, "Constrain the whole output to a regular expression."},
    {"json_schema", kObject | kFlag, 0, 0, "Constrain the output to a JSON schema."},
    {"response_format", kObject, 0, 0,
     "`type`: text, json_object, or json_schema with the schema in `json_schema.schema`."},
    {"t_max_predict_ms", kWhole, 0, 1e9, "Time limit of a completion in milliseconds; 0 (default): none."},
    {"timings_per_token", kFlag, 0, 0, "Add the timings so far to every event of a stream; default false."},
    {"return_progress", kFlag, 0, 0,
     "Send events with `prompt_progress` while the prompt is prefilled; default false."},
    {"cache_prompt", kFlag, 0, 0,
     "Use the prefix cache: a beginning that an earlier request had is not prefilled again; default true. "
     "The "
     "answer is the same."},
    {"id_slot", kWhole, -1, 1e9, "Ignored: all completions share one prefix cache."},
    {"lora", kList, 0, 0,
     "LoRA adapters by `id` and `scale`; the server has none, so only an empty array is accepted."},
    {"user", kText, 0, 256, "The end user; requests of different users are scheduled fairly."}};

}  // namespace

const FieldTable kGenerationFields = kGenerationRows;

std::vector<int32_t> mixed_tokens(const Service& service, const Json& list, const std::string& path,
                                  unsigned flags) {
    std::vector<int32_t> out;
    for (size_t i = 0; i < list.size(); i++) {
        if (!list[i].is_string()) {
            out.push_back(token_id(list[i], path + "[" + std::to_string(i) + "]", service.info.n_vocab));
            continue;
        }
        const unsigned inner = out.empty() ? flags : flags & ~unsigned{TSR_ADD_SPECIAL};
        const auto ids = service.model.tokenize(list[i].get_ref<const std::string&>(), inner);
        out.insert(out.end(), ids.begin(), ids.end());
    }
    return out;
}

void check_adapters(const Json& list, const std::string& path) {
    if (list.empty()) return;
    const Json& first = list[0];
    const bool has_id = first.is_object() && first.contains("id");
    throw HttpError(400,
                    path + "[0]" + (has_id ? ".id" : "") +
                        ": expected no adapter, since the server has none, found " +
                        shown(dump(has_id ? first["id"] : first)),
                    path);
}

void check_length(const Service& service, size_t n_tokens, const std::string& path) {
    if (n_tokens == 0) throw HttpError(400, path + ": expected at least one token, found none", path);
    if (static_cast<int64_t>(n_tokens) < service.n_ctx) return;
    throw HttpError(400,
                    path + ": the prompt has " + std::to_string(n_tokens) +
                        " tokens, but the context holds " + std::to_string(service.n_ctx) +
                        ", one of them for the answer",
                    path, "context_length_exceeded");
}

std::vector<std::vector<int32_t>> read_prompts(const Service& service, const Json& value,
                                               const std::string& path, size_t limit) {
    std::vector<std::vector<int32_t>> out;
    const auto add = [&](std::vector<int32_t> ids, const std::string& name) {
        check_length(service, ids.size(), name);
        out.push_back(std::move(ids));
    };
    const auto of_text = [&](const Json& text) {
        return service.model.tokenize(text.get_ref<const std::string&>(),
                                      TSR_ADD_SPECIAL | TSR_PARSE_SPECIAL);
    };
    if (value.is_string()) {
        add(of_text(value), path);
    } else if (!value.empty() && value[0].is_number()) {
        add(mixed_tokens(service, value, path), path);
    } else {
        if (value.empty() || value.size() > limit)
            throw HttpError(400,
                            path + ": expected 1 to " + std::to_string(limit) + " prompts, found " +
                                std::to_string(value.size()),
                            path);
        const bool is_mixed =
            value[0].is_string() &&
            std::any_of(value.begin(), value.end(), [](const Json& v) { return v.is_number(); });
        if (is_mixed) {
            add(mixed_tokens(service, value, path), path);
            return out;
        }
        for (size_t i = 0; i < value.size(); i++) {
            const std::string name = path + "[" + std::to_string(i) + "]";
            if (value[i].is_string())
                add(of_text(value[i]), name);
            else if (value[i].is_array())
                add(mixed_tokens(service, value[i], name), name);
            else
                throw HttpError(400, name + ": expected a string or an array, found " + kind_name(value[i]),
                                path);
        }
    }
    return out;
}

tessera_api::Request read_generation(const Service& service, const Request& request, const Fields& fields) {
    tessera_api::Request out;
    out.sampling = read_sampling(service, fields.body());
    out.n_completions = static_cast<int32_t>(fields.whole("n", 1));
    out.stop = texts(fields.value("stop"), "stop", 16);
    out.deadline_s = static_cast<double>(fields.whole("t_max_predict_ms", 0)) / 1000;
    out.client = read_client(request, fields);
    if (fields.flag("ignore_eos")) out.flags |= TSR_IGNORE_END;
    if (!fields.flag("cache_prompt", true)) out.flags |= TSR_NO_PREFIX_CACHE;
    check_adapters(fields.value("lora"), "lora");
    return out;
}

std::string read_client(const Request& request, const Fields& fields) {
    return fields.text("user", request.header("X-Client-Id").substr(0, 256));
}

void read_max_tokens(const Fields& fields, std::initializer_list<const char*> names,
                     tessera_api::Request& out) {
    const auto found =
        std::find_if(names.begin(), names.end(), [&](const char* name) { return fields.has(name); });
    if (found == names.end()) return;
    const int64_t n = fields.whole(*found, -1);
    out.max_tokens = std::max<int64_t>(n, 0);
    if (n == 0) out.flags |= TSR_PROMPT_ONLY;
}

bool wants_usage(const Fields& fields) {
    const Json& options = fields.value("stream_options");
    if (options.is_null() || !options.contains("include_usage")) return false;
    check_field({"include_usage", kFlag, 0, 0, ""}, options["include_usage"], "stream_options.include_usage");
    return options["include_usage"].get<bool>();
}

tessera_api::Grammar make_grammar(tsr_grammar_kind kind, const std::string& text, const std::string& path,
                                  const tsr_prompt* prompt) {
    tsr_grammar_options options{};
    options.kind = kind;
    options.text = text.data();
    options.n_text = text.size();
    options.prompt = prompt;
    try {
        return tessera_api::Grammar(options);
    } catch (const tessera_api::Error& error) {
        if (error.status() == TSR_OUT_OF_MEMORY || error.status() == TSR_INTERNAL) throw;
        throw HttpError(400, path + ": " + error.what(), path);
    }
}

std::optional<tessera_api::Grammar> read_response_format(const Fields& fields, const tsr_prompt* prompt) {
    std::optional<tessera_api::Grammar> out;
    const auto set = [&out](tessera_api::Grammar grammar, const char* field) {
        if (out)
            throw HttpError(400, std::string(field) + ": expected one constraint, found a second", field);
        out = std::move(grammar);
    };
    if (fields.has("grammar")) {
        // Some clients send an empty grammar for none.
        const auto& text = fields.value("grammar").get_ref<const std::string&>();
        if (!text.empty()) set(make_grammar(TSR_GRAMMAR_GBNF, text, "grammar", prompt), "grammar");
    }
    if (fields.has("regex"))
        set(make_grammar(TSR_GRAMMAR_REGEX, fields.value("regex").get<std::string>(), "regex", prompt),
            "regex");
    if (fields.has("json_schema"))
        set(make_grammar(TSR_GRAMMAR_JSON_SCHEMA, dump(fields.value("json_schema")), "json_schema", prompt),
            "json_schema");
    if (!fields.has("response_format")) return out;
    const Json& format = fields.value("response_format");
    const std::string type =
        format.contains("type") ? terminated(format["type"], "response_format.type") : "text";
    if (type == "text") return out;
    const bool is_schema = type == "json_schema";
    if (type != "json_object" && !is_schema)
        throw HttpError(
            400,
            "response_format.type: expected text, json_object or json_schema, found '" + shown(type) + "'",
            "response_format.type");
    // llama.cpp's clients put the schema next to the type, OpenAI's into an object with a name.
    const Json* schema = format.contains("schema") ? &format["schema"] : nullptr;
    std::string path = "response_format.schema";
    if (is_schema && format.contains("json_schema") && format["json_schema"].is_object() &&
        format["json_schema"].contains("schema")) {
        schema = &format["json_schema"]["schema"];
        path = "response_format.json_schema.schema";
    }
    if (is_schema && !schema)
        throw HttpError(400, "response_format.json_schema.schema: expected an object, found nothing",
                        "response_format.json_schema.schema");
    if (schema && !schema->is_null())
        set(make_grammar(TSR_GRAMMAR_JSON_SCHEMA, dump(*schema), path, prompt), "response_format");
    else
        set(make_grammar(TSR_GRAMMAR_JSON_OBJECT, "", "response_format", prompt), "response_format");
    return out;
}

std::string token_text(const Service& service, int32_t id) {
    // Detokenized alone a token would lose its leading space.
    std::string bytes = token_bytes(service, id);
    return bytes.empty() ? service.model.detokenize({id}, TSR_SHOW_SPECIAL) : bytes;
}

std::string token_bytes(const Service& service, int32_t id) {
    const char* bytes = nullptr;
    size_t n = 0;
    tessera_api::detail::call(tsr_token_bytes, service.model.get(), id, &bytes, &n);
    return {bytes, n};
}

Json byte_list(const std::string& bytes) {
    Json out = Json::array();
    for (const char byte : bytes) out.push_back(static_cast<unsigned char>(byte));
    return out;
}

double json_log_p(float log_p) { return log_p > -9999 ? static_cast<double>(log_p) : -9999.0; }

int64_t unix_time() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string random_name(const std::string& prefix) {
    thread_local std::mt19937_64 random{std::random_device{}()};
    char text[40];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random()));
    return prefix + text;
}

std::string sse(const Json& data) { return "data: " + dump(data) + "\n\n"; }

std::string sse_error(int status, const std::string& message) {
    return "data: " + error_body(status, message) + "\n\n";
}

}  // namespace tessera::server
