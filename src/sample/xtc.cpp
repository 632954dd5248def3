// xtc ("exclude top choices", as in text-generation-webui): with a given probability drops all likely tokens
// but the least likely of them, for less predictable text that is still plausible. Uses random numbers of its
// own lane.
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kXtc;

namespace {

constexpr ParamInfo kXtcParams[] = {
    {.name = "xtc_probability",
     .default_value = 0,
     .min = 0,
     .max = 1,
     .model_key = "xtc_probability",
     .help = "XTC (exclude top choices): chance of dropping all likely tokens but the least likely of them; "
             "0: off."},
    {.name = "xtc_threshold",
     .default_value = 0.1,
     .min = 0,
     .max = 1,
     .model_key = "xtc_threshold",
     .help = "Tokens of at least this probability count as likely; above 0.5: off."},
};

class Xtc final : public Sampler {
  public:
    Xtc(double probability, double threshold, size_t min_keep)
        : probability_(probability), threshold_(threshold), min_keep_(min_keep) {}

    void apply(Candidates& candidates, Context& context) override {
        const double chance = static_cast<double>(context.random(Context::Lane::Xtc) >> 11) * 0x1p-53;
        if (chance < probability_) candidates.drop_likely(threshold_, min_keep_);
    }

    std::unique_ptr<Sampler> clone() const override { return std::make_unique<Xtc>(*this); }

  private:
    double probability_, threshold_;
    size_t min_keep_;
};

Result<std::unique_ptr<Sampler>> make_xtc(const Params& params, const Setting&) {
    const double probability = params.number("xtc_probability"), threshold = params.number("xtc_threshold");
    if (probability <= 0 || threshold > 0.5) return nullptr;  // two tokens cannot both be that likely
    return std::make_unique<Xtc>(probability, threshold, static_cast<size_t>(params.number("min_keep")));
}

}  // namespace

constexpr SamplerInfo kXtc = {"xtc", "XTC: excludes top choices at random", kXtcParams, make_xtc, 'x'};

}  // namespace tessera::sample
