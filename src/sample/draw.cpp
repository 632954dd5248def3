// draw: chooses one of the remaining candidates by their probabilities. Always last in a chain. Candidates
// are ordered by id, so that the token depends only on the surviving set and on the random bits of (seed,
// stream, step), and small differences of logits rarely change the token.
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
     .help = "Random seed: the same seed gives the same tokens; -1: a new one each time."},
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
        // The upper half of the product: an integer from 0 to total - 1.
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
