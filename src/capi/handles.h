#pragma once
// The structs behind the opaque pointers of the C interface.
#include <atomic>
#include <memory>

#include "common/threads.h"
#include "include/tessera.h"
#include "src/engine/chat.h"
#include "src/engine/constraints.h"
#include "src/engine/engine.h"
#include "src/engine/load.h"
#include "src/engine/response_format.h"
#include "src/engine/session.h"

struct tsr_model : tessera::engine::Loaded {
    std::shared_ptr<tessera::engine::Constraints> constraints;
    std::shared_ptr<tessera::engine::NpuModel> npu;
};

struct tsr_session {
    std::unique_ptr<tessera::ThreadPool> pool;
    std::shared_ptr<const tessera::text::Tokenizer> tokenizer;
    std::shared_ptr<tessera::engine::Constraints> constraints;
    std::unique_ptr<tessera::engine::Session> session;
    std::unique_ptr<tessera::sample::Chain> chain;
    std::atomic<bool> cancelled{false};
    // The grammar that constrains the tokens behind the first n_free.
    std::unique_ptr<tessera::grammar::Matcher> matcher;
    std::vector<uint64_t> allowed;
    int64_t n_free = 0;
};

struct tsr_engine {
    std::unique_ptr<tessera::ThreadPool> pool;
    tessera::sample::Params sampling;  // the model's defaults
    std::unique_ptr<tessera::engine::Engine> engine;
};

struct tsr_request {
    tessera::engine::Ticket ticket;
};

struct tsr_grammar {
    std::shared_ptr<const tessera::grammar::Grammar> grammar;
};

struct tsr_chat {
    std::shared_ptr<const tessera::engine::Chat> chat;
    std::string format, warning;
};

struct tsr_prompt : tessera::engine::ChatPrompt {
    std::string notes;
};

namespace tessera::capi {

/// 0: one thread for each physical core that the process may use.
Result<std::unique_ptr<ThreadPool>> create_pool(int32_t n_threads);
Result<Type> cache_type(const char* name, const char* option);
Result<engine::Pooling> pooling_of(const Model& model, tsr_pooling wanted);
/// `defaults`, overridden by the caller's parameters.
Result<sample::Params> sampling_params(const sample::Params& defaults, const tsr_param* params, size_t n);

}  // namespace tessera::capi
