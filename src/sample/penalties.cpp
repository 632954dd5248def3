// penalties: lowers the logits of tokens among the last n. The repetition penalty divides positive and
// multiplies negative logits (Keskar et al., "CTRL", 2019); presence is subtracted once, frequency once per
// occurrence (as in the OpenAI API). Assumes that every token of the text, prompt included, is accept()ed.
#include <algorithm>

#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kPenalties;

namespace {

constexpr ParamInfo kPenaltiesParams[] = {
    {.name = "repeat_penalty",
     .default_value = 1,
     .min = 0.01,
     .max = 100,
     .model_key = "penalty_repeat",
     .help = "Divide positive and multiply negative logits of recent tokens by this; 1: off."},
    {.name = "presence_penalty",
     .default_value = 0,
     .min = -100,
     .max = 100,
     .help = "Subtract this from the logits of recent tokens; 0: off."},
    {.name = "frequency_penalty",
     .default_value = 0,
     .min = -100,
     .max = 100,
     .help = "Subtract this times the number of recent occurrences; 0: off."},
    {.name = "repeat_last_n",
     .kind = ParamKind::Int,
     .default_value = 64,
     .min = -1,
     .max = 1048576,
     .model_key = "penalty_last_n",
     .help = "Number of last tokens, prompt included, that the three penalties apply to; 0: none, -1: all."},
};

/// Counts of the tokens in a sliding window.
class Window {
  public:
    /// last_n: length of the window, or -1 for an unlimited one.
    Window(int64_t last_n, int32_t n_vocab)
        : ring_(static_cast<size_t>(std::max<int64_t>(last_n, 0))), seen_(static_cast<size_t>(n_vocab)) {
        distinct_.resize(ring_.empty() ? seen_.size() : std::min(ring_.size(), seen_.size()));
    }

    void push(int32_t id) {
        if (!ring_.empty()) {
            if (n_tok_ >= ring_.size()) remove(ring_[n_tok_ % ring_.size()]);
            ring_[n_tok_ % ring_.size()] = id;
            n_tok_++;
        }
        Seen& seen = seen_[static_cast<size_t>(id)];
        if (seen.count++ == 0) {
            seen.slot = static_cast<uint32_t>(n_distinct_);
            distinct_[n_distinct_++] = id;
        }
    }

    void clear() {
        for (int32_t id : distinct()) seen_[static_cast<size_t>(id)] = {};
        n_distinct_ = n_tok_ = 0;
    }

    std::span<const int32_t> distinct() const { return {distinct_.data(), n_distinct_}; }
    uint32_t count(int32_t id) const { return seen_[static_cast<size_t>(id)].count; }

  private:
    struct Seen {
        uint32_t count = 0;
        uint32_t slot = 0;  // index in distinct_
    };

    void remove(int32_t id) {
        Seen& seen = seen_[static_cast<size_t>(id)];
        if (--seen.count > 0) return;
        const int32_t moved = distinct_[--n_distinct_];
        distinct_[seen.slot] = moved;
        seen_[static_cast<size_t>(moved)].slot = seen.slot;
    }

    std::vector<int32_t> ring_;  // [last_n], token t of the text at t % last_n; empty when nothing drops out
    std::vector<Seen> seen_;     // [n_vocab]
    std::vector<int32_t> distinct_;  // ids with count > 0, in no order, n_distinct_ of them
    size_t n_distinct_ = 0;
    size_t n_tok_ = 0;
};

class Penalties final : public Sampler {
  public:
    Penalties(const Params& params, int32_t n_vocab)
        : repeat_(params.number("repeat_penalty")),
          presence_(params.number("presence_penalty")),
          frequency_(params.number("frequency_penalty")),
          window_(static_cast<int64_t>(params.number("repeat_last_n")), n_vocab) {}

    void apply(Candidates& candidates, Context&) override {
        const std::span<const int32_t> ids = window_.distinct();
        candidates.edit(ids, [&](size_t i, double logit) {
            logit = logit > 0 ? logit / repeat_ : logit * repeat_;
            return logit - (presence_ + window_.count(ids[i]) * frequency_);
        });
    }

    void accept(int32_t id) override { window_.push(id); }
    void reset() override { window_.clear(); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<Penalties>(*this); }

  private:
    double repeat_, presence_, frequency_;
    Window window_;
};

Result<std::unique_ptr<Sampler>> make_penalties(const Params& params, const Setting& setting) {
    const bool neutral = params.number("repeat_penalty") == 1 && params.number("presence_penalty") == 0 &&
                         params.number("frequency_penalty") == 0;
    if (neutral || params.number("repeat_last_n") == 0) return nullptr;
    return std::make_unique<Penalties>(params, setting.n_vocab);
}

}  // namespace

constexpr SamplerInfo kPenalties = {"penalties", "penalizes tokens that occurred recently", kPenaltiesParams,
                                    make_penalties, 'e'};

}  // namespace tessera::sample
