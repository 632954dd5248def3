// Decides by a token's place in its text alone which arithmetic computes it, so that the split of a text into
// passes changes no bit. The scheduler (scheduler.cpp) uses these rules; sessions have their own (session.h).
#include "src/engine/npu_policy.h"

#include <algorithm>

namespace tessera::engine {

Result<NpuPolicy> NpuPolicy::start(NpuModel* npu, const Model& model, CpuBackend& cpu, int64_t n_ctx,
                                   int64_t n_batch, int64_t max_running) {
    if (!npu) return NpuPolicy();
    if (npu->owns_kv_cache() && max_running != 1)
        return fail(
            ErrorCode::InvalidArgument,
            "running completions: expected 1, since the NPU has the KV cache of one sequence, found %lld",
            static_cast<long long>(max_running));
    TSR_TRY(auto session, npu->start(model, cpu, n_ctx, n_batch, max_running));
    return NpuPolicy(std::move(session));
}

Phase NpuPolicy::next_phase(bool has_prefill, bool has_decode) {
    if (splits_phases() && (phase_ == Phase::Prefill ? has_decode : has_prefill))
        phase_ = phase_ == Phase::Prefill ? Phase::Decode : Phase::Prefill;
    return phase_;
}

int64_t NpuPolicy::n_in_phase(const Completion& one, Phase phase, int64_t n) const {
    if (!splits_phases()) return n;
    if (one.phase() != phase) return 0;
    return phase == Phase::Prefill ? std::min(n, one.n_prompt() - one.sequence().n_tok()) : n;
}

std::span<const int32_t> NpuPolicy::reusable_prefix(const Completion& one) const {
    std::span<const int32_t> front = one.skippable();
    if (splits_phases()) front = front.first(std::min(front.size(), static_cast<size_t>(one.n_prompt())));
    if (!owns_kv_cache()) return front;
    const auto ends = std::mismatch(front.begin(), front.end(), cached_.begin(), cached_.end());
    return front.first(static_cast<size_t>(ends.first - front.begin()));
}

std::span<const int32_t> NpuPolicy::publishable_prefix(const Completion& one, int64_t n_tok) const {
    if (splits_phases()) n_tok = std::min(n_tok, one.n_prompt());
    return one.tokens().first(static_cast<size_t>(n_tok));
}

/// The NPU's KV cache has the tokens of the sequence and n_more.
void NpuPolicy::set_cached(const Pass& pass, int64_t n_more) {
    const Completion& one = *pass.chunks().front().completion;
    const auto tokens = one.tokens().first(static_cast<size_t>(one.sequence().n_tok() + n_more));
    cached_.assign(tokens.begin(), tokens.end());
}

Backend& NpuPolicy::begin(const Pass& pass, CpuBackend& cpu) {
    // A pass overwrites positions behind the sequence, even if it is aborted.
    if (owns_kv_cache()) set_cached(pass, 0);
    return npu_ && npu_->computes(pass.phase()) ? npu_->backend() : cpu;
}

void NpuPolicy::end(const Pass& pass) {
    if (owns_kv_cache()) set_cached(pass, pass.chunks().front().n_tok);
}

}  // namespace tessera::engine
