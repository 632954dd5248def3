#pragma once
// The routes. Each is a row of the table in routes.cpp and a function.
#include <span>
#include <string_view>
#include <vector>

#include "server/fields.h"
#include "server/http.h"

namespace tessera::server {

struct Service;

struct Route {
    const char* method;
    const char* path;  ///< a path that ends with {NAME} matches any text there
    Response (*handle)(Service&, Request&);
    const char* summary;                  ///< null: not in /openapi.json
    std::vector<FieldTable> fields = {};  ///< of the body
    bool samples = false;                 ///< the body may have sampling parameters
    bool is_public = false;               ///< requires no key
};

std::span<const Route> routes();
/// The row of a path, or null; `method_fits` is false if the path only has other methods.
const Route* find_route(std::string_view method, std::string_view path, bool& method_fits);

/// A 200 with JSON.
Response json_response(const Json& body);
/// /openapi.json, from the rows.
Json openapi(const Service& service);

// Fields of the bodies; each table is in the file of the functions that use it.
extern const FieldTable kGenerationFields, kCompletionFields, kChatFields, kNativeFields, kInfillFields,
    kTokenizeFields, kDetokenizeFields, kTemplateFields, kEmbeddingFields, kNativeEmbeddingFields;

Response get_page(Service&, Request&);
Response get_health(Service&, Request&);
Response get_models(Service&, Request&);
Response get_model(Service&, Request&);
Response get_props(Service&, Request&);
Response get_slots(Service&, Request&);
Response get_lora_adapters(Service&, Request&);
Response post_lora_adapters(Service&, Request&);
Response get_metrics(Service&, Request&);
Response get_openapi(Service&, Request&);
Response post_tokenize(Service&, Request&);
Response post_detokenize(Service&, Request&);
Response post_apply_template(Service&, Request&);
Response post_input_tokens(Service&, Request&);
Response post_embeddings(Service&, Request&);
Response post_native_embedding(Service&, Request&);
Response post_completions(Service&, Request&);
Response post_chat_completions(Service&, Request&);
Response post_native_completion(Service&, Request&);
Response post_infill(Service&, Request&);

}  // namespace tessera::server
