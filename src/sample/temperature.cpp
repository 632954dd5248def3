// temperature: divides the logits, so that the draw is sharper (below 1) or flatter (above 1); 0 or less
// leaves the best candidate alone. The best logit is subtracted first: at low temperatures float would
// otherwise lose the differences that matter.
#include <cmath>

#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kTemperature;

namespace {

constexpr ParamInfo kParams[] = {
    {.name = "temperature",
     .flag = "--temp",
     .default_value = 0.8,
     .min = -1,
     .max = 100,
     .help = "Below 1 sharper, above 1 flatter; 0 or less: always the best token."},
};

class Temperature final : public Sampler {
  public:
    explicit Temperature(double temperature) : temperature_(temperature) {}

    void apply(Candidates& candidates, Context&) override {
        if (temperature_ <= 0) return candidates.keep_top(1);
        const float max = candidates.max_logit();
        if (max == -INFINITY) return;  // all are banned: nothing to scale, and -inf - -inf is no number
        for (Candidate& c : candidates.entries()) {
            const double below = static_cast<double>(c.logit) - static_cast<double>(max);
            c.logit = c.logit == max ? 0.0f : static_cast<float>(below / temperature_);
        }
        candidates.logits_changed();
    }

    std::unique_ptr<Sampler> clone() const override { return std::make_unique<Temperature>(*this); }

  private:
    double temperature_;
};

Result<std::unique_ptr<Sampler>> make(const Params& params, int32_t) {
    const double temperature = params.number("temperature");
    if (temperature == 1) return nullptr;
    return std::make_unique<Temperature>(temperature);
}

}  // namespace

constexpr SamplerInfo kTemperature = {"temperature", "sharpens or flattens the distribution", kParams, make};

}  // namespace tessera::sample
