// top_n_sigma: keeps the logits that lie within n standard deviations below the best (Tang et al., "Top-nσ:
// not all logits are you need", 2024). Banned tokens count neither for the mean nor for the deviation.
#include <cmath>

#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kTopNSigma;

namespace {

constexpr ParamInfo kTopNSigmaParams[] = {
    {.name = "top_n_sigma",
     .default_value = -1,
     .min = -1,
     .max = 100,
     .help =
         "Keep tokens whose logit is at most this many standard deviations below the best; 0 or less: off."},
};

class TopNSigma final : public Sampler {
  public:
    explicit TopNSigma(double n) : n_(n) {}

    void apply(Candidates& candidates, Context&) override {
        const float max = candidates.max_logit();
        if (std::isinf(max)) return;  // no finite deviation
        candidates.keep_from(static_cast<double>(max) - n_ * candidates.spread().deviation);
    }

    std::unique_ptr<Sampler> clone() const override { return std::make_unique<TopNSigma>(*this); }

  private:
    double n_;
};

Result<std::unique_ptr<Sampler>> make_top_n_sigma(const Params& params, const Setting&) {
    const double n = params.number("top_n_sigma");
    if (n <= 0) return nullptr;
    return std::make_unique<TopNSigma>(n);
}

}  // namespace

constexpr SamplerInfo kTopNSigma = {"top_n_sigma", "keeps logits within n standard deviations of the best",
                                    kTopNSigmaParams, make_top_n_sigma, 's'};

}  // namespace tessera::sample
