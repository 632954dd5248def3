// Routes about the server itself: health, models, properties, slots, metrics, and its OpenAPI description.
#include <optional>

#include "server/error.h"
#include "server/prompts.h"
#include "server/routes.h"
#include "server/service.h"

namespace tessera::server {

namespace {

Json model_row(const Service& service) {
    const tsr_model_info& info = service.info;
    return {{"id", service.name},
            {"object", "model"},
            {"created", service.created},
            {"owned_by", "tessera"},
            {"meta",
             {{"architecture", info.architecture},
              {"type", info.type},
              {"n_vocab", info.n_vocab},
              {"n_ctx", service.n_ctx},
              {"n_ctx_train", info.n_ctx_train},
              {"n_embd", info.n_embd},
              {"n_params", info.n_params},
              {"size", info.n_bytes}}}};
}

/// A slot in the format of llama.cpp's server, where next_token is a list of one element, too.
Json slot_row(const Service& service, size_t id, const std::optional<Slots::State>& state) {
    const Slots::State now = state.value_or(Slots::State());
    const int64_t n_left = now.max_tokens > 0 ? now.max_tokens - now.n_decoded : -1;
    return {
        {"id", id},
        {"id_task", state ? static_cast<int64_t>(now.task) : -1},
        {"n_ctx", service.n_ctx},
        {"speculative", false},
        {"is_processing", state.has_value()},
        {"n_prompt_tokens", now.n_prompt},
        {"n_prompt_tokens_cache", now.n_cached},
        {"n_prompt_tokens_processed", now.n_read - now.n_cached},
        {"next_token",
         Json::array(
             {{{"has_next_token", state.has_value()}, {"n_remain", n_left}, {"n_decoded", now.n_decoded}}})}};
}

Json special_token(const Service& service, int32_t id) {
    return id < 0 ? Json() : Json(token_text(service, id));
}

}  // namespace

Response json_response(const Json& body) {
    Response out;
    out.body = dump(body);
    return out;
}

Response get_health(Service&, Request&) { return json_response({{"status", "ok"}}); }

Response get_models(Service& service, Request&) {
    return json_response({{"object", "list"}, {"data", Json::array({model_row(service)})}});
}

Response get_model(Service& service, Request& request) {
    const std::string name = request.path.substr(request.path.find("/models/") + 8);
    if (name != service.name)
        throw HttpError(404, "there is no model '" + shown(name) + "', only '" + service.name + "'", "model",
                        "model_not_found");
    return json_response(model_row(service));
}

Response get_props(Service& service, Request&) {
    Json defaults = sampling_values(service);
    // Only the names of /completion: the page would take those of the chat route for further settings.
    defaults["n_predict"] = -1;
    defaults["n_keep"] = 0;
    defaults["n_indent"] = 0;
    defaults["n_probs"] = 0;
    Json slot = slot_row(service, 0, std::nullopt);
    slot["params"] = std::move(defaults);
    const tsr_chat_info& chat = service.chat_info;
    return json_response({{"model_alias", service.name},
                          {"model_path", service.config.model_path},
                          {"build_info", std::string("tessera ") + tsr_version()},
                          {"total_slots", service.n_slots()},
                          {"default_generation_settings", std::move(slot)},
                          {"chat_template", chat.source},
                          {"chat_format", chat.format},
                          {"chat_template_caps",
                           {{"supports_system_role", chat.system != 0},
                            {"supports_tools", chat.tools != 0},
                            {"supports_tool_calls", chat.tool_calls != 0},
                            {"supports_thinking", chat.thinking != 0},
                            {"enforced_tool_calls", chat.enforced_calls}}},
                          {"bos_token", special_token(service, service.info.bos)},
                          {"eos_token", special_token(service, service.info.eos)},
                          {"isa", service.info.isa},
                          {"modalities", {{"vision", false}, {"audio", false}}}});
}

Response get_slots(Service& service, Request&) {
    Json out = Json::array();
    for (const auto& state : service.slots.list(static_cast<size_t>(service.n_slots())))
        out.push_back(slot_row(service, out.size(), state));
    return json_response(out);
}

Response get_lora_adapters(Service&, Request&) { return json_response(Json::array()); }

Response post_lora_adapters(Service&, Request& request) {
    const Json list = parse_json(request.body);
    if (!list.is_array())
        throw HttpError(400, std::string("the request's body: expected an array, found ") + kind_name(list));
    check_adapters(list, "the request's body");
    return json_response({{"success", true}});
}

Response get_metrics(Service& service, Request&) {
    Response out;
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    out.body = service.metrics.text(service.engine.stats());
    return out;
}

Response get_openapi(Service& service, Request&) { return json_response(openapi(service)); }

}  // namespace tessera::server
