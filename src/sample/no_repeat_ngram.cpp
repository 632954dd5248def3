// no_repeat_ngram: bans every token that would complete an n-gram of the text. Assumes that every token of
// the text, prompt included, is accept()ed.
#include "src/sample/repeats.h"
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kNoRepeatNgram;

namespace {

constexpr ParamInfo kNoRepeatNgramParams[] = {
    {.name = "no_repeat_ngram_size",
     .kind = ParamKind::Int,
     .default_value = 0,
     .min = 0,
     .max = 1024,
     .help = "Never repeat an n-gram of this many tokens, prompt included; 0: off."},
};

class NoRepeatNgram final : public Sampler {
  public:
    NoRepeatNgram(size_t size, size_t n_window, int32_t n_vocab)
        : size_(size), repeats_(n_window), seen_(static_cast<size_t>(n_vocab)) {
        ids_.reserve(std::min(n_window, seen_.size()));
    }

    void apply(Candidates& candidates, Context&) override {
        repeats_.find(size_ - 1, [&](int32_t id, size_t length) {
            if (length + 1 < size_ || seen_[static_cast<size_t>(id)]) return;
            seen_[static_cast<size_t>(id)] = true;
            ids_.push_back(id);
        });
        candidates.ban(ids_);
        for (const int32_t id : ids_) seen_[static_cast<size_t>(id)] = false;
        ids_.clear();
    }

    void accept(int32_t id) override { repeats_.push(id); }
    void reset() override { repeats_.clear(); }
    std::unique_ptr<Sampler> clone() const override {
        auto copy = std::make_unique<NoRepeatNgram>(*this);
        copy->ids_.reserve(ids_.capacity());
        return copy;
    }

  private:
    size_t size_;
    Repeats repeats_;
    std::vector<bool> seen_;    // [n_vocab] whether the token is in ids_
    std::vector<int32_t> ids_;  // tokens to ban
};

Result<std::unique_ptr<Sampler>> make_no_repeat_ngram(const Params& params, const Setting& setting) {
    const auto size = static_cast<size_t>(params.number("no_repeat_ngram_size"));
    if (size == 0) return nullptr;
    return std::make_unique<NoRepeatNgram>(size, setting.window(), setting.n_vocab);
}

}  // namespace

constexpr SamplerInfo kNoRepeatNgram = {"no_repeat_ngram", "bans n-grams that the text already has",
                                        kNoRepeatNgramParams, make_no_repeat_ngram};

}  // namespace tessera::sample
