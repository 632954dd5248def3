// top_p: keeps the shortest run of best candidates whose probability reaches p (nucleus sampling: Holtzman et
// al., "The curious case of neural text degeneration", 2020). Probabilities are those of the remaining
// candidates.
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kTopP;

namespace {

constexpr ParamInfo kTopPParams[] = {
    {.name = "top_p",
     .default_value = 0.95,
     .min = 0,
     .max = 1,
     .model_key = "top_p",
     .help = "Keep the most likely tokens that together reach this probability; 1: off."},
};

class TopP final : public Sampler {
  public:
    TopP(double p, size_t min_keep) : p_(p), min_keep_(min_keep) {}
    void apply(Candidates& candidates, Context&) override { candidates.keep_mass(p_, min_keep_); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<TopP>(*this); }

  private:
    double p_;
    size_t min_keep_;
};

Result<std::unique_ptr<Sampler>> make_top_p(const Params& params, const Setting&) {
    const double p = params.number("top_p");
    if (p >= 1) return nullptr;
    return std::make_unique<TopP>(p, static_cast<size_t>(params.number("min_keep")));
}

}  // namespace

constexpr SamplerInfo kTopP = {"top_p", "keeps the most likely tokens up to a probability", kTopPParams,
                               make_top_p, 'p'};

}  // namespace tessera::sample
