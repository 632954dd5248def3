// What the server says of itself: health, models, properties, slots, metrics, and its own description.
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
              {"n_params", info.n_params}}}};
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
    Json defaults = Json::object();
    for (const tsr_param_info& row : service.sampling) {
        if (row.is_text)
            defaults[row.name] = row.default_text ? row.default_text : "";
        else
            defaults[row.name] = row.default_value;
    }
    const tsr_chat_info& chat = service.chat_info;
    const int64_t slots = service.config.engine.max_running > 0 ? service.config.engine.max_running : 8;
    return json_response({{"model_alias", service.name},
                          {"model_path", service.config.model_path},
                          {"build_info", std::string("tessera ") + tsr_version()},
                          {"total_slots", slots},
                          {"default_generation_settings", {{"n_ctx", service.n_ctx}, {"params", defaults}}},
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
    const tsr_engine_stats stats = service.engine.stats();
    const int64_t slots = service.config.engine.max_running > 0 ? service.config.engine.max_running : 8;
    Json out = Json::array();
    for (int64_t i = 0; i < slots; i++)
        out.push_back({{"id", i}, {"n_ctx", service.n_ctx}, {"is_processing", i < stats.n_running}});
    return json_response(out);
}

Response get_metrics(Service& service, Request&) {
    Response out;
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    out.body = service.metrics.text(service.engine.stats());
    return out;
}

Response get_openapi(Service& service, Request&) { return json_response(openapi(service)); }

}  // namespace tessera::server
