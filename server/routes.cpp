// The table of routes, used for dispatch, /openapi.json and the check of the documents. A new route is a row
// here, a declaration in routes.h, and a function.
#include "server/routes.h"

#include "server/page.h"
#include "server/service.h"

namespace tessera::server {

static std::span<const Route> table() {
    static const Route kRoutes[] = {
        {"GET", "/health", get_health, "Liveness: answers as soon as the server runs.", {}, false, true},
        {"GET", "/v1/health", get_health, "The same.", {}, false, true},
        {"GET", "/v1/models", get_models, "The model, as a list of one element."},
        {"GET", "/v1/models/{model}", get_model, "The model by name."},
        {"GET", "/models", get_models, "The same as /v1/models."},
        {"GET", "/props", get_props, "Chat template, defaults and limits."},
        {"GET", "/slots", get_slots, "The running completions."},
        {"GET", "/lora-adapters", get_lora_adapters, "The LoRA adapters: none."},
        {"POST", "/lora-adapters", post_lora_adapters,
         "Set the scales of LoRA adapters; only an empty array is accepted."},
        {"GET", "/metrics", get_metrics, "Counters and histograms for Prometheus."},
        {"GET", "/openapi.json", get_openapi, "This OpenAPI description."},
        {"POST", "/tokenize", post_tokenize, "Tokenize a text.", {kTokenizeFields}},
        {"POST", "/detokenize", post_detokenize, "Convert token ids to text.", {kDetokenizeFields}},
        {"POST", "/apply-template", post_apply_template, "Render a dialogue to a prompt.", {kTemplateFields}},
        {"POST",
         "/v1/chat/completions/input_tokens",
         post_input_tokens,
         "Number of tokens of a dialogue.",
         {kTemplateFields}},
        {"POST",
         "/v1/chat/completions",
         post_chat_completions,
         "Generate the next message of a dialogue.",
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
         "Complete prompts.",
         {kGenerationFields, kCompletionFields},
         true},
        {"POST", "/completions", post_completions, "The same.", {kGenerationFields, kCompletionFields}, true},
        {"POST",
         "/completion",
         post_native_completion,
         "Complete prompts, in llama.cpp's format.",
         {kGenerationFields, kNativeFields},
         true},
        {"POST",
         "/infill",
         post_infill,
         "Fill in the middle of a text.",
         {kGenerationFields, kNativeFields, kInfillFields},
         true},
        {"POST", "/v1/embeddings", post_embeddings, "Embeddings of texts.", {kEmbeddingFields}},
        {"POST", "/embeddings", post_embeddings, "The same.", {kEmbeddingFields}},
        {"POST",
         "/embedding",
         post_native_embedding,
         "Embeddings of texts, in llama.cpp's format.",
         {kNativeEmbeddingFields}},
    };
    return kRoutes;
}

namespace {

/// The table, and after it the page's files, which are public: the page itself prompts for a key.
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

/// The {NAME} of a path as an OpenAPI parameter; null for a path without one.
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
                 {{"description", "The error and the field that it concerns."},
                  {"content", {{"application/json", {{"schema", error_schema}}}}}}}}}}}};
}

}  // namespace tessera::server
