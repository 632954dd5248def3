#pragma once
// What the opaque pointers of the C interface point at.
#include <memory>

#include "common/threads.h"
#include "src/engine/engine.h"
#include "src/engine/load.h"
#include "src/engine/session.h"

struct tsr_model : tessera::engine::Loaded {};

struct tsr_session {
    std::unique_ptr<tessera::ThreadPool> pool;
    std::shared_ptr<const tessera::text::Tokenizer> tokenizer;
    std::unique_ptr<tessera::engine::Session> session;
    std::unique_ptr<tessera::sample::Chain> chain;
};

struct tsr_engine {
    std::unique_ptr<tessera::ThreadPool> pool;
    std::unique_ptr<tessera::engine::Engine> engine;
};

struct tsr_request {
    tessera::engine::Ticket ticket;
};

namespace tessera::capi {

/// 0: one for each physical core that the process may use.
Result<std::unique_ptr<ThreadPool>> create_pool(int32_t n_threads);
Result<Type> cache_type(const char* name, const char* option);
Result<sample::Params> sampling_params(const tsr_param* params, size_t n);

}  // namespace tessera::capi
