// The table of routes: dispatch, /openapi.json and the documents' check are made from it. A new one is a row
// here, its function's line in routes.h, and that function.
#include "server/routes.h"

#include "server/page.h"
#include "server/service.h"

namespace tessera::server {

static std::span<const Route> table() {
    static const Route kRoutes[] = {
        {"GET", "/health", get_health, "Whether the server answers.", {}, false, true},
        {"GET", "/v1/health", get_health, "The same.", {}, false, true},
        {"GET", "/v1/models", get_models, "The model, as a list of one."},
        {"GET", "/v1/models/{model}", get_model, "The model by its name."},
        {"GET", "/models", get_models, "The same as /v1/models."},
        {"GET", "/props", get_props, "Template, defaults and limits."},
        {"GET", "/slots", get_slots, "The completions that are computed."},
        {"GET", "/lora-adapters", get_lora_adapters, "The LoRA adapters: none."},
        {"POST", "/lora-adapters", post_lora_adapters, "Their scales; an empty array."},
        {"GET", "/metrics", get_metrics, "Counters and histograms for Prometheus."},
        {"GET", "/openapi.json", get_openapi, "This description."},
        {"POST", "/tokenize", post_tokenize, "Text to token ids.", {kTokenizeFields}},
        {"POST", "/detokenize", post_detokenize, "Token ids to text.", {kDetokenizeFields}},
        {"POST",
         "/apply-template",
         post_apply_template,
         "A dialogue to the prompt that it becomes.",
         {kTemplateFields}},
        {"POST",
         "/v1/chat/completions/input_tokens",
         post_input_tokens,
         "How many tokens a dialogue is.",
         {kTemplateFields}},
        {"POST",
         "/v1/chat/completions",
         post_chat_completions,
         "The next message of a dialogue.",
         {kTemplateFields, kGenerationFields, kChatFields},
         true},
        {"POST",
         "/chat/completions",
         post_chat_completions,
         "The same.",
         {kTemplateFields, kGenerationFields, kChatFields},
         true},
        {"POST",
         "/v1/completions",
         post_completions,
         "Texts that go on from prompts.",
         {kGenerationFields, kCompletionFields},
         true},
        {"POST", "/completions", post_completions, "The same.", {kGenerationFields, kCompletionFields}, true},
        {"POST",
         "/completion",
         post_native_completion,
         "The same in llama.cpp's form.",
         {kGenerationFields, kNativeFields},
         true},
        {"POST",
         "/infill",
         post_infill,
         "What fills a gap.",
         {kGenerationFields, kNativeFields, kInfillFields},
         true},
        {"POST", "/v1/embeddings", post_embeddings, "Texts to vectors.", {kEmbeddingFields}},
        {"POST", "/embeddings", post_embeddings, "The same.", {kEmbeddingFields}},
        {"POST",
         "/embedding",
         post_native_embedding,
         "The same in llama.cpp's form.",
         {kNativeEmbeddingFields}},
    };
    return kRoutes;
}

namespace {

/// The table, and behind it the page's files. They need no key: without one, the page asks for it.
std::vector<Route> all_routes() {
    std::vector<Route> rows(table().begin(), table().end());
    for (const PageFile& file : page_files()) {
        const bool is_index = std::string_view(file.path) == "/";
        rows.push_back({"GET", file.path, get_page, is_index ? "The chat page." : nullptr, {}, false, true});
    }
    return rows;
}

bool fits(std::string_view pattern, std::string_view path) {
    const size_t brace = pattern.find('{');
    if (brace == std::string_view::npos) return path == pattern;
    return path.size() > brace && path.starts_with(pattern.substr(0, brace));
}

/// The {NAME} of a route as OpenAPI describes it; nothing where it has none.
Json path_parameters(std::string_view pattern) {
    const size_t brace = pattern.find('{');
    if (brace == std::string_view::npos) return Json::array();
    return Json::array({{{"name", pattern.substr(brace + 1, pattern.size() - brace - 2)},
                         {"in", "path"},
                         {"required", true},
                         {"schema", {{"type", "string"}}}}});
}

}  // namespace

std::span<const Route> routes() {
    static const std::vector<Route> kRoutes = all_routes();
    return kRoutes;
}

const Route* find_route(std::string_view method, std::string_view path, bool& method_fits) {
    const std::string_view wanted = method == "HEAD" ? "GET" : method;
    const Route* found = nullptr;
    for (const Route& route : routes()) {
        if (!fits(route.path, path)) continue;
        found = &route;
        method_fits = wanted == route.method;
        if (method_fits) break;
    }
    return found;
}

Json openapi(const Service& service) {
    const Json error = {{"$ref", "#/components/responses/Error"}};
    Json paths = Json::object();
    for (const Route& route : routes()) {
        if (!route.summary) continue;
        Json operation = {{"summary", route.summary},
                          {"responses", {{"200", {{"description", "The answer."}}}, {"default", error}}}};
        if (Json parameters = path_parameters(route.path); !parameters.empty())
            operation["parameters"] = std::move(parameters);
        if (route.is_public) operation["security"] = Json::array();
        if (!route.fields.empty()) {
            Json properties = Json::object(), required = Json::array();
            for (const FieldTable& table : route.fields) add_properties(table, properties, required);
            if (route.samples) properties.update(sampling_properties(service));
            Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
            if (!required.empty()) schema["required"] = std::move(required);
            operation["requestBody"] = {{"required", true},
                                        {"content", {{"application/json", {{"schema", std::move(schema)}}}}}};
        }
        paths[route.path][std::string_view(route.method) == "GET" ? "get" : "post"] = std::move(operation);
    }
    const Json error_schema = {{"type", "object"},
                               {"properties",
                                {{"error",
                                  {{"type", "object"},
                                   {"properties",
                                    {{"message", {{"type", "string"}}},
                                     {"type", {{"type", "string"}}},
                                     {"param", {{"type", {"string", "null"}}}},
                                     {"code", {{"type", {"string", "null"}}}}}}}}}}};
    return {{"openapi", "3.1.0"},
            {"info", {{"title", "tessera"}, {"version", tsr_version()}}},
            {"security", Json::array({{{"bearer", Json::array()}}})},
            {"paths", std::move(paths)},
            {"components",
             {{"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}},
              {"responses",
               {{"Error",
                 {{"description", "What was wrong, and where."},
                  {"content", {{"application/json", {{"schema", error_schema}}}}}}}}}}}};
}

}  // namespace tessera::server
