// top_p: keeps the shortest run of best candidates whose probability reaches p (nucleus sampling: Holtzman et
// al., "The curious case of neural text degeneration", 2020). Probabilities are those of the candidates still
// there.
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kTopP;

namespace {

constexpr ParamInfo kParams[] = {
    {.name = "top_p",
     .default_value = 0.95,
     .min = 0,
     .max = 1,
     .help = "Keep the best tokens that together reach this probability; 1: off."},
};

class TopP final : public Sampler {
  public:
    explicit TopP(double p) : p_(p) {}
    void apply(Candidates& candidates, Context&) override { candidates.keep_mass(p_); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<TopP>(*this); }

  private:
    double p_;
};

Result<std::unique_ptr<Sampler>> make(const Params& params, int32_t) {
    const double p = params.number("top_p");
    if (p >= 1) return nullptr;
    return std::make_unique<TopP>(p);
}

}  // namespace

constexpr SamplerInfo kTopP = {"top_p", "the best tokens that reach a probability", kParams, make};

}  // namespace tessera::sample
