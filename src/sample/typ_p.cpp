// typ_p: keeps the tokens whose surprise is nearest to the entropy, until their probability reaches p
// (Meister et al., "Locally typical sampling", 2023). Unlike top_p it may drop the best token.
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kTypP;

namespace {

constexpr ParamInfo kTypPParams[] = {
    {.name = "typical_p",
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "Locally typical sampling: keep the most typical tokens that together exceed this probability; "
             "1: off."},
};

class TypP final : public Sampler {
  public:
    TypP(double p, size_t min_keep) : p_(p), min_keep_(min_keep) {}
    void apply(Candidates& candidates, Context&) override { candidates.keep_typical(p_, min_keep_); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<TypP>(*this); }

  private:
    double p_;
    size_t min_keep_;
};

Result<std::unique_ptr<Sampler>> make_typ_p(const Params& params, const Setting&) {
    const double p = params.number("typical_p");
    if (p >= 1) return nullptr;
    return std::make_unique<TypP>(p, static_cast<size_t>(params.number("min_keep")));
}

}  // namespace

constexpr SamplerInfo kTypP = {"typ_p", "locally typical sampling", kTypPParams, make_typ_p, 'y'};

}  // namespace tessera::sample
