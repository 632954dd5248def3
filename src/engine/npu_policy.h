#pragma once
// The rules that an NPU imposes on the scheduler's passes and on the prefix cache. Without an NPU there are
// none.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/engine/npu_model.h"
#include "src/engine/pass.h"

namespace tessera::engine {

/// Prefill and decode use different arithmetic if the NPU computes only one of them: then no pass has tokens
/// of both, and the prefix cache holds prompts alone, since generated tokens in another request's prompt
/// would be computed by the other arithmetic. An NPU that has the KV cache holds that of one text. Not
/// thread-safe.
class NpuPolicy {
  public:
    /// Without an NPU.
    NpuPolicy() = default;
    explicit NpuPolicy(std::unique_ptr<NpuSession> npu) : npu_(std::move(npu)) {}
    /// Starts a model's NPU for the passes of an engine; without one if `npu` is null. Errors: several
    /// running completions if it has the KV cache; those of NpuModel::start().
    static Result<NpuPolicy> start(NpuModel* npu, const Model& model, CpuBackend& cpu, int64_t n_ctx,
                                   int64_t n_batch, int64_t max_running);

    /// The phase of the next pass, if running completions have tokens of either phase: alternating as long as
    /// there are tokens of both.
    Phase next_phase(bool has_prefill, bool has_decode);
    /// How many of the next n tokens of a completion a pass of this phase may compute.
    int64_t n_in_phase(const Completion& one, Phase phase, int64_t n) const;
    /// The tokens at the front of a completion that may be taken from the prefix cache.
    std::span<const int32_t> reusable_prefix(const Completion& one) const;
    /// The part of the first n_tok tokens that may be published to the prefix cache.
    std::span<const int32_t> publishable_prefix(const Completion& one, int64_t n_tok) const;

    /// The backend that computes a pass; call before it does.
    Backend& begin(const Pass& pass, CpuBackend& cpu);
    /// Notes that a pass was computed, before its completions advance.
    void end(const Pass& pass);

  private:
    bool splits_phases() const { return npu_ && npu_->phase_split(); }
    bool owns_kv_cache() const { return npu_ && npu_->owns_kv_cache(); }
    void set_cached(const Pass& pass, int64_t n_more);

    std::unique_ptr<NpuSession> npu_;
    Phase phase_ = Phase::Prefill;  // of the last pass
    std::vector<int32_t> cached_;   // tokens in the NPU's KV cache
};

}  // namespace tessera::engine
