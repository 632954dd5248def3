// infill: for fill-in-the-middle, where stopping in time matters more than variety. If ending has a
// noticeable probability, the text ends; tokens that are prefixes of another candidate are merged with it,
// and only likely ones stay. Rules and thresholds are llama.cpp's. Use it after filters such as top_k and
// top_p; of a longer list it takes the best 256.
#include <algorithm>
#include <array>
#include <cmath>

#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kInfill;

namespace {

constexpr ParamInfo kInfillParams[] = {
    {.name = "infill",
     .kind = ParamKind::Int,
     .default_value = 0,
     .min = 0,
     .max = 1,
     .help = "1: fill-in-the-middle sampling, which ends the text as soon as the model tends to; 0: off."},
};

constexpr size_t kMost = 256;
constexpr double kLeast = 0.2;    // probability below which tokens are dropped in the first round
constexpr double kEagerness = 3;  // factor in favour of ending

class Infill final : public Sampler {
  public:
    explicit Infill(const text::Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

    void apply(Candidates& candidates, Context&) override {
        candidates.keep_top(kMost);
        candidates.sort();
        if (candidates.max_logit() == -INFINITY) return;
        const auto total = static_cast<double>(candidates.weigh());
        double p_end = 0, p_text = 0;
        size_t n = candidates.size();
        for (size_t i = 0; i < n; i++) {
            const Candidate& c = candidates.entries()[i];
            p_[i] = static_cast<double>(c.weight) / total;
            (is_end(c) ? p_end : p_text) += p_[i];
        }
        if (kEagerness * p_end * static_cast<double>(n) > p_text) {
            keep_if(candidates, [&](size_t i) { return is_end(candidates.entries()[i]); });
            return;
        }
        join_beginnings(candidates.entries());
        double sum = 0;
        const size_t n_text = keep_likely(candidates, 1, kLeast, sum);
        if (n_text == 0) return keep_end(candidates);
        keep_likely(candidates, sum, 1 / static_cast<double>(n_text + 1), sum);
    }

    std::unique_ptr<Sampler> clone() const override { return std::make_unique<Infill>(*this); }

  private:
    bool is_end(const Candidate& c) const { return tokenizer_->vocab().is_end(c.id); }

    /// Keeps the entries and probabilities for whose index keep(i) is true.
    template <class Keep>
    void keep_if(Candidates& candidates, Keep keep) {
        const std::span<Candidate> entries = candidates.entries();
        size_t n = 0;
        for (size_t i = 0; i < entries.size(); i++) {
            if (!keep(i)) continue;
            p_[n] = p_[i];
            entries[n++] = entries[i];
        }
        candidates.shrink(n);
    }

    /// If one candidate's bytes are a prefix of another's, the likelier of the two gets both probabilities.
    void join_beginnings(std::span<const Candidate> entries) {
        for (size_t i = 0; i < entries.size(); i++) {
            for (size_t j = 0; j < entries.size() && p_[i] > 0; j++) {
                if (i == j || p_[j] == 0) continue;
                const std::string_view begin = tokenizer_->token_bytes(entries[i].id);
                if (begin.empty() || !tokenizer_->token_bytes(entries[j].id).starts_with(begin)) continue;
                const bool other = p_[j] > p_[i];
                p_[other ? j : i] += p_[other ? i : j];
                p_[other ? i : j] = 0;
            }
        }
    }

    /// Keeps end tokens, and others whose share of `whole` is at least `least`. Sets `sum` to their total and
    /// returns the number of the others. If none would remain, drops nothing.
    size_t keep_likely(Candidates& candidates, double whole, double least, double& sum) {
        size_t n_kept = 0, n_text = 0;
        double kept = 0;
        const auto stays = [&](size_t i) {
            return p_[i] / whole >= least || is_end(candidates.entries()[i]);
        };
        for (size_t i = 0; i < candidates.size(); i++) {
            if (!stays(i)) continue;
            n_kept++;
            n_text += !is_end(candidates.entries()[i]);
            kept += p_[i];
        }
        sum = kept;
        if (n_kept > 0) keep_if(candidates, stays);
        return n_text;
    }

    void keep_end(Candidates& candidates) const {
        const text::SpecialIds& special = tokenizer_->vocab().special();
        const int32_t end = special.eot != text::kNoToken ? special.eot : special.eos;
        if (end == text::kNoToken) return candidates.keep_top(1);
        candidates.keep_only(end);
    }

    const text::Tokenizer* tokenizer_;
    std::array<double, kMost> p_{};  // parallel to the entries
};

Result<std::unique_ptr<Sampler>> make_infill(const Params& params, const Setting& setting) {
    if (params.number("infill") == 0) return nullptr;
    TSR_TRY_VOID(need_tokenizer(setting, "infill"));
    return std::make_unique<Infill>(setting.tokenizer);
}

}  // namespace

constexpr SamplerInfo kInfill = {"infill", "fill-in-the-middle: prefers ending the text", kInfillParams,
                                 make_infill, 'i'};

}  // namespace tessera::sample
