// adaptive_p: prefers tokens whose probability is near a target. The target is corrected by the probabilities
// drawn before, so that the mean over the text approaches it (MrJackSpade and ddh0, "adaptive-p", 2025).
// Assumes that earlier filters dropped unlikely tokens.
#include <algorithm>
#include <vector>

#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kAdaptiveP;

namespace {

constexpr ParamInfo kAdaptivePParams[] = {
    {.name = "adaptive_target",
     .default_value = -1,
     .min = -1,
     .max = 1,
     .help = "Adaptive-p: target for the mean probability of the drawn tokens; below 0: off."},
    {.name = "adaptive_decay",
     .default_value = 0.9,
     .min = 0,
     .max = 0.99,
     .help = "Decay of that mean per token: higher is steadier."},
};

// The shape of the preference (passes.h).
constexpr float kPeak = 5, kSharpness = 10, kWidth = 0.3f;

class AdaptiveP final : public Sampler {
  public:
    AdaptiveP(double target, double decay, int32_t n_vocab)
        : target_(target), decay_(decay), original_(LogitRow::padded(static_cast<size_t>(n_vocab))) {
        reset();
    }

    void apply(Candidates& candidates, Context&) override {
        const auto target = static_cast<float>(std::clamp(2 * target_ - sum_ / weight_, 0.0, 1.0));
        candidates.prefer(original_, {target, 1 / kWidth, kPeak, kSharpness});
    }

    void drawn(const Context& context) override { id_ = context.all_masked ? -1 : context.id; }
    void accept(int32_t id) override {
        if (id == id_) {  // tokens of the prompt were not drawn
            sum_ = static_cast<double>(original_[static_cast<size_t>(id)]) + decay_ * sum_;
            weight_ = 1 + decay_ * weight_;
        }
        id_ = -1;
    }
    void reset() override {
        // As if all earlier draws had been on target.
        weight_ = 1 / (1 - decay_);
        sum_ = target_ * weight_;
        id_ = -1;
    }
    void forget_text() override { id_ = -1; }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<AdaptiveP>(*this); }

  private:
    double target_, decay_;
    double sum_ = 0, weight_ = 0;  // of drawn probabilities, with decay
    std::vector<float> original_;  // [padded n_vocab] probabilities of the candidates before the change
    int32_t id_ = -1;              // drawn and not yet accepted
};

Result<std::unique_ptr<Sampler>> make_adaptive_p(const Params& params, const Setting& setting) {
    const double target = params.number("adaptive_target");
    if (target < 0) return nullptr;
    return std::make_unique<AdaptiveP>(target, params.number("adaptive_decay"), setting.n_vocab);
}

}  // namespace

constexpr SamplerInfo kAdaptiveP = {"adaptive_p", "adaptive-p: prefers tokens near a target probability",
                                    kAdaptivePParams, make_adaptive_p, 'a'};

}  // namespace tessera::sample
