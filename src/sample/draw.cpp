// draw: chooses one of the remaining candidates by their probabilities. Always the last of a chain.
// Candidates are laid out by id before the draw, so the token depends on the set that survived and on the
// random bits of (seed, stream, step) alone; and where logits differ a little, the token seldom does.
#include <cmath>

#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kDraw;

namespace {

constexpr ParamInfo kDrawParams[] = {
    {.name = "seed",
     .kind = ParamKind::Int,
     .default_value = -1,
     .min = -1,
     .max = 9007199254740991,
     .help = "Start of the random numbers: same seed, same tokens; -1: from the system's entropy."},
};

class Draw final : public Sampler {
  public:
    void apply(Candidates& candidates, Context& context) override {
        if (candidates.max_logit() == -INFINITY) {
            candidates.sort_by_id();
            context.id = candidates.entries()[0].id;
            context.all_masked = true;
            return;
        }
        const uint64_t total = candidates.weigh();
        // The upper half of the product: a whole number from 0 to total - 1.
        const auto product = static_cast<unsigned __int128>(context.random(Context::Lane::Draw)) * total;
        const Candidate chosen = candidates.pick(static_cast<uint64_t>(product >> 64));
        context.id = chosen.id;
        context.p = static_cast<double>(chosen.weight) / static_cast<double>(total);
    }

    std::unique_ptr<Sampler> clone() const override { return std::make_unique<Draw>(*this); }
};

Result<std::unique_ptr<Sampler>> make_draw(const Params&, const Setting&) { return std::make_unique<Draw>(); }

}  // namespace

constexpr SamplerInfo kDraw = {"draw", "chooses a token at random by probability", kDrawParams, make_draw};

}  // namespace tessera::sample
