#pragma once
// What the routes work with. Made once; any thread.
#include <mutex>
#include <string>
#include <vector>

#include "server/fields.h"
#include "server/metrics.h"
#include "server/server.h"

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

    /// The embedding of a text, of length 1. One at a time; others wait. Throws HttpError where the client
    /// goes or the server stops meanwhile, with the computation ended.
    std::vector<float> embed(const std::vector<int32_t>& tokens, tsr_pooling pooling, Peer& peer);

  private:
    std::timed_mutex embed_mutex_;
    std::optional<tessera_api::Session> embed_session_;
};

/// The fields of a request that are sampling parameters, as the engine takes them. Throws HttpError 400.
tessera_api::Sampling read_sampling(const Service& service, const Json& body);
/// Their rows, for the documents.
Json sampling_properties(const Service& service);

/// An error of the library as an answer: the caller's mistakes are a 400 that names the field.
[[noreturn]] void rethrow(const tessera_api::Error& error, const std::string& param = "");

}  // namespace tessera::server
