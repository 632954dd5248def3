// temperature: divides the logits, so that the draw is sharper (below 1) or flatter (above 1); 0 or less
// leaves the best candidate alone. Dynamic temperature chooses the divisor from a range, by the
// entropy of what is there: low where the model is certain, high where it is not.
#include <algorithm>
#include <cmath>

#include "common/exact_math.h"
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kTemperature;

namespace {

constexpr ParamInfo kTemperatureParams[] = {
    {.name = "temperature",
     .flag = "--temp",
     .default_value = 0.8,
     .min = -1,
     .max = 100,
     .model_key = "temp",
     .help = "Below 1 sharper, above 1 flatter; 0 or less: always the best token."},
    {.name = "dynatemp_range",
     .default_value = 0,
     .min = 0,
     .max = 100,
     .help = "Let the temperature vary by this to both sides, as the entropy asks; 0: off."},
    {.name = "dynatemp_exponent",
     .flag = "--dynatemp-exp",
     .default_value = 1,
     .min = 0.01,
     .max = 100,
     .help = "How the temperature follows the entropy: above 1 it rises late, below 1 early."},
};

class Temperature final : public Sampler {
  public:
    Temperature(double temperature, double range, double exponent)
        : temperature_(temperature), range_(range), exponent_(exponent) {}

    void apply(Candidates& candidates, Context&) override {
        const double temperature = range_ > 0 ? dynamic(candidates) : temperature_;
        if (temperature <= 0) return candidates.keep_top(1);
        candidates.temper(temperature);
    }

    std::unique_ptr<Sampler> clone() const override { return std::make_unique<Temperature>(*this); }

  private:
    /// lowest + (highest - lowest) * (entropy / largest possible entropy)^exponent.
    double dynamic(Candidates& candidates) const {
        const double lowest = std::max(0.0, temperature_ - range_), highest = temperature_ + range_;
        if (candidates.size() == 1) return 1;  // nothing to choose from
        const double certain = 1e-12;
        const double most = exact_log(static_cast<double>(candidates.size()));
        const double share = std::min(candidates.entropy() / most, 1.0);
        if (share < certain) return lowest;
        return lowest + (highest - lowest) * exact_exp(exponent_ * exact_log(share));
    }

    double temperature_, range_, exponent_;
};

Result<std::unique_ptr<Sampler>> make_temperature(const Params& params, const Setting&) {
    const double temperature = params.number("temperature"), range = params.number("dynatemp_range");
    if (temperature == 1 && range == 0) return nullptr;
    return std::make_unique<Temperature>(temperature, range, params.number("dynatemp_exponent"));
}

}  // namespace

constexpr SamplerInfo kTemperature = {"temperature", "sharpens or flattens the distribution",
                                      kTemperatureParams, make_temperature, 't'};

}  // namespace tessera::sample
