#pragma once
// Completions and passes without a scheduler.
#include <memory>
#include <string>

#include "src/engine/pass.h"
#include "src/engine/session.h"
#include "tests/engine/support.h"

namespace tessera::engine {

class PassParts : public Engines {
  protected:
    static constexpr int64_t kCtx = 128, kBatch = 64;

    PassParts() : backend_(*create_backend(*loaded_.model, pool_, kBatch)) {
        CachePlan plan = *plan_completion_cache(*loaded_.model, {.n_ctx = kCtx, .n_batch = kBatch});
        pages_ =
            std::make_unique<kv::PagePool>(*kv::PagePool::create(std::move(plan.layout), 8 * plan.n_pages));
    }

    std::unique_ptr<Completion> completion(Request request) {
        auto made = Completion::create(job_of(std::move(request), {}, 1), 0, *loaded_.tokenizer, {*pages_},
                                       kCtx, loaded_.model->hparams().n_embd);
        EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
        return std::move(*made);
    }

    Pass empty_pass(int64_t max_logits) {
        auto made =
            Pass::create(*loaded_.model, pages_->layout(),
                         {.n_ctx = kCtx, .max_tok = kBatch, .max_chunks = 4, .max_logits = max_logits});
        EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
        return std::move(*made);
    }

    /// Adds all pending tokens of a completion.
    static void add(Pass& pass, Completion& one, int64_t n_logits) {
        const auto n_tok = static_cast<int64_t>(one.pending().size());
        EXPECT_TRUE(one.sequence().reserve(n_tok));
        pass.add(one, n_tok, n_logits);
    }

    void compute(Pass& pass) {
        forward(*backend_, *loaded_.model, pages_->layout(), pass.batch(), pass.activations());
    }

    std::unique_ptr<CpuBackend> backend_;
    std::unique_ptr<kv::PagePool> pages_;
};

}  // namespace tessera::engine
