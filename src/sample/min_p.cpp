// min_p: drops candidates that are much less likely than the best one (Nguyen et al., "Turning up the heat:
// min-p sampling", 2024). The ratio does not depend on what was dropped before.
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kMinP;

namespace {

constexpr ParamInfo kParams[] = {
    {.name = "min_p",
     .default_value = 0.05,
     .min = 0,
     .max = 1,
     .help = "Drop tokens less likely than this fraction of the best token's probability; 0: off."},
};

class MinP final : public Sampler {
  public:
    explicit MinP(double p) : p_(p) {}
    void apply(Candidates& candidates, Context&) override { candidates.keep_relative(p_); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<MinP>(*this); }

  private:
    double p_;
};

Result<std::unique_ptr<Sampler>> make(const Params& params, int32_t) {
    const double p = params.number("min_p");
    if (p <= 0) return nullptr;
    return std::make_unique<MinP>(p);
}

}  // namespace

constexpr SamplerInfo kMinP = {"min_p", "tokens not far below the best", kParams, make};

}  // namespace tessera::sample
