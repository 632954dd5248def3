// Batched decoding directly on the forward pass: the tokens of all sequences share each read of the weights.
#include "examples/tessera/parallel_decode.h"

#include <algorithm>
#include <numeric>

namespace tessera {

Result<std::unique_ptr<ParallelDecode>> ParallelDecode::create(std::shared_ptr<const Model> model,
                                                               ThreadPool& pool,
                                                               const engine::SessionOptions& options,
                                                               int64_t n_seq) {
    std::unique_ptr<ParallelDecode> all(new ParallelDecode());
    const Hparams& h = model->hparams();
    all->n_batch_ = std::max(options.n_batch, n_seq);
    all->n_ctx_ = options.n_ctx;
    TSR_TRY(all->backend_, engine::create_backend(*model, pool, all->n_batch_));
    TSR_TRY(all->activations_, Activations::create(*model, all->n_batch_, n_seq));
    const int64_t n_pages = n_seq * ((options.n_ctx + kKvPage - 1) / kKvPage);
    TSR_TRY(kv::PagePool pages, kv::PagePool::create(kv::Layout::create(h.n_layer, h.n_head_kv, h.head_dim,
                                                                        options.k_type, options.v_type),
                                                     n_pages));
    all->pages_ = std::make_unique<kv::PagePool>(std::move(pages));
    for (int64_t i = 0; i < n_seq; ++i)
        all->sequences_.push_back(std::make_unique<kv::Sequence>(*all->pages_));
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
            const Segment segment{sequence->pages(), 0, n, sequence->n_tok()};
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
        segments_.push_back(
            {sequence->pages(), static_cast<int64_t>(segments_.size()), 1, sequence->n_tok()});
    }
    forward(*backend_, *model_, pages_->layout(), {tokens_, segments_, outputs_, n_ctx_}, activations_);
    if (pool_->aborted()) return false;
    for (auto& sequence : sequences_) sequence->advance(1);
    return true;
}

void ParallelDecode::truncate(int64_t n) {
    for (auto& sequence : sequences_) sequence->truncate(n);
}

}  // namespace tessera
