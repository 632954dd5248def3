// Batched decoding directly on the forward pass: the tokens of all sequences share each read of the weights.
#include "examples/tessera/parallel_decode.h"

#include <algorithm>
#include <numeric>

namespace tessera {

namespace {

/// The next n tokens of a sequence, which are reserved, as rows from row0 of a batch.
Segment segment_of(const kv::Sequence& sequence, int64_t row0, int64_t n) {
    return {sequence.pages(), row0, n, sequence.n_tok(), sequence.state_in(), sequence.state_out()};
}

}  // namespace

Result<std::unique_ptr<ParallelDecode>> ParallelDecode::create(std::shared_ptr<const Model> model,
                                                               ThreadPool& pool,
                                                               const engine::SessionOptions& options,
                                                               int64_t n_seq) {
    std::unique_ptr<ParallelDecode> all(new ParallelDecode());
    all->n_batch_ = std::max(options.n_batch, n_seq);
    all->n_ctx_ = options.n_ctx;
    TSR_TRY(all->backend_, engine::create_backend(*model, pool, all->n_batch_));
    TSR_TRY(all->activations_, Activations::create(*model, all->n_batch_, n_seq));
    TSR_TRY(engine::CachePlan plan, engine::plan_cache(*model, options));
    TSR_TRY(kv::PagePool pages, kv::PagePool::create(std::move(plan.layout), n_seq * plan.n_pages));
    all->pages_ = std::make_unique<kv::PagePool>(std::move(pages));
    TSR_TRY(kv::StatePool states, kv::StatePool::create(std::move(plan.states), n_seq * plan.n_states));
    all->states_ = std::make_unique<kv::StatePool>(std::move(states));
    for (int64_t i = 0; i < n_seq; ++i)
        all->sequences_.push_back(std::make_unique<kv::Sequence>(*all->pages_, all->states_.get()));
    all->tokens_.resize(static_cast<size_t>(n_seq));
    all->outputs_.resize(static_cast<size_t>(n_seq));
    std::iota(all->outputs_.begin(), all->outputs_.end(), 0);
    all->model_ = std::move(model);
    all->pool_ = &pool;
    return all;
}

bool ParallelDecode::fill(std::span<const int32_t> tokens) {
    for (auto& sequence : sequences_)
        for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(n_batch_)) {
            const auto part = tokens.subspan(at, std::min(static_cast<size_t>(n_batch_), tokens.size() - at));
            const auto n = static_cast<int64_t>(part.size());
            TSR_CHECK(sequence->reserve(n));
            const Segment segment = segment_of(*sequence, 0, n);
            forward(*backend_, *model_, pages_->layout(), {part, {&segment, 1}, {}, n_ctx_}, activations_);
            if (pool_->aborted()) return false;
            sequence->advance(n);
        }
    return true;
}

bool ParallelDecode::step(int32_t token) {
    std::fill(tokens_.begin(), tokens_.end(), token);
    segments_.clear();
    for (auto& sequence : sequences_) {
        TSR_CHECK(sequence->reserve(1));
        segments_.push_back(segment_of(*sequence, std::ssize(segments_), 1));
    }
    forward(*backend_, *model_, pages_->layout(), {tokens_, segments_, outputs_, n_ctx_}, activations_);
    if (pool_->aborted()) return false;
    for (auto& sequence : sequences_) sequence->advance(1);
    return true;
}

void ParallelDecode::truncate(int64_t n) {
    for (auto& sequence : sequences_) sequence->rewind(n);
}

}  // namespace tessera
