#pragma once
// The objects that the routes use. Made once; any thread.
#include <string>
#include <vector>

#include "server/fields.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/slots.h"

namespace tessera::server {

struct Service {
    explicit Service(const Config& settings);

    const Config& config;
    tessera_api::Model model;
    tsr_model_info info;
    tessera_api::Engine engine;
    tessera_api::Chat chat;
    tsr_chat_info chat_info;
    std::vector<tsr_param_info> sampling;  ///< with the model's defaults
    std::string name;                      ///< of the model
    int64_t n_ctx;                         ///< positions of one request
    int64_t created;                       ///< seconds since 1970
    Metrics metrics;
    Slots slots;

    /// Completions that can run at once.
    int64_t n_slots() const { return config.engine.max_running > 0 ? config.engine.max_running : 8; }
};

/// The sampling parameters of a request, for the engine. Throws HttpError 400.
tessera_api::Sampling read_sampling(const Service& service, const Json& body);
/// All sampling parameters with their values: the request's, else the defaults.
Json sampling_values(const Service& service, const tessera_api::Sampling& given = {});
/// The sampling parameters as properties of a JSON schema.
Json sampling_properties(const Service& service);

/// Throws an error of the library as an HttpError: invalid arguments as a 400 that names the field.
[[noreturn]] void rethrow(const tessera_api::Error& error, const std::string& param = "");

}  // namespace tessera::server
