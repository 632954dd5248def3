// min_p: drops candidates that are much less likely than the best one (Nguyen et al., "Turning up the heat:
// min-p sampling", 2024). The ratio does not depend on earlier filters.
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kMinP;

namespace {

constexpr ParamInfo kMinPParams[] = {
    {.name = "min_p",
     .default_value = 0.05,
     .min = 0,
     .max = 1,
     .model_key = "min_p",
     .help = "Drop tokens less likely than this fraction of the most likely token's probability; 0: off."},
};

class MinP final : public Sampler {
  public:
    MinP(double p, size_t min_keep) : p_(p), min_keep_(min_keep) {}
    void apply(Candidates& candidates, Context&) override { candidates.keep_relative(p_, min_keep_); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<MinP>(*this); }

  private:
    double p_;
    size_t min_keep_;
};

Result<std::unique_ptr<Sampler>> make_min_p(const Params& params, const Setting&) {
    const double p = params.number("min_p");
    if (p <= 0) return nullptr;
    return std::make_unique<MinP>(p, static_cast<size_t>(params.number("min_keep")));
}

}  // namespace

constexpr SamplerInfo kMinP = {"min_p", "keeps tokens close to the most likely one", kMinPParams, make_min_p,
                               'm'};

}  // namespace tessera::sample
