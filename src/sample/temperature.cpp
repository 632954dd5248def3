// temperature: divides the logits, which sharpens (below 1) or flattens (above 1) the distribution; 0 or less
// keeps only the best candidate. Dynamic temperature chooses the divisor from a range by the entropy of the
// candidates: low if the model is certain, high if not.
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
     .help = "Randomness: below 1 less, above 1 more; 0 or less: always the most likely token."},
    {.name = "dynatemp_range",
     .default_value = 0,
     .min = 0,
     .max = 100,
     .help = "Dynamic temperature: vary it by up to this in both directions, by the entropy; 0: off."},
    {.name = "dynatemp_exponent",
     .flag = "--dynatemp-exp",
     .default_value = 1,
     .min = 0.01,
     .max = 100,
     .help = "Exponent of the entropy-to-temperature curve: above 1 only uncertain tokens get a higher "
             "temperature."},
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
        if (candidates.size() == 1) return 1;  // a single candidate
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
