// top_k: keeps the k best candidates.
// Ties at the edge go to the lower id (candidates.h), so the set kept is unique.
#include <algorithm>

#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kTopK;

namespace {

constexpr ParamInfo kTopKParams[] = {
    {.name = "top_k",
     .kind = ParamKind::Int,
     .default_value = 40,
     .min = -1,
     .max = 16777216,
     .model_key = "top_k",
     .help = "Keep only this many most likely tokens; 0 or less: off."},
};

class TopK final : public Sampler {
  public:
    explicit TopK(size_t k) : k_(k) {}
    void apply(Candidates& candidates, Context&) override { candidates.keep_top(k_); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<TopK>(*this); }

  private:
    size_t k_;
};

Result<std::unique_ptr<Sampler>> make_top_k(const Params& params, const Setting& setting) {
    const double k = params.number("top_k");
    if (k <= 0 || k >= setting.n_vocab) return nullptr;
    return std::make_unique<TopK>(static_cast<size_t>(k));
}

}  // namespace

constexpr SamplerInfo kTopK = {"top_k", "keeps the k most likely tokens", kTopKParams, make_top_k, 'k'};

}  // namespace tessera::sample
