// mirostat: keeps the mean surprise of the text near a target by feedback (Basu et al., "Mirostat: a neural
// text decoding algorithm that directly controls perplexity", 2021). Surprise is -log2 of a token's
// probability. Version 1 estimates from the best tokens how steeply probability falls with rank and keeps as
// many as reach mu; version 2 keeps the tokens of surprise up to mu. mu is then corrected by the drawn
// token's deviation from the target.
#include <algorithm>
#include <cmath>

#include "common/exact_math.h"
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kMirostat;

namespace {

constexpr ParamInfo kMirostatParams[] = {
    {.name = "mirostat",
     .kind = ParamKind::Int,
     .default_value = 0,
     .min = 0,
     .max = 2,
     .model_key = "mirostat",
     .help = "Mirostat version 1 or 2, with target entropy mirostat_tau; 0: off."},
    {.name = "mirostat_tau",
     .default_value = 5,
     .min = 0,
     .max = 100,
     .model_key = "mirostat_tau",
     .help = "Target surprise per token, in bits."},
    {.name = "mirostat_eta",
     .default_value = 0.1,
     .min = 0,
     .max = 1,
     .model_key = "mirostat_eta",
     .help = "Learning rate: share of the error of one token that is corrected at the next."},
};

constexpr double kLn2 = 0.6931471805599453;
constexpr size_t kEstimated = 100;  // number of tokens from which version 1 estimates the slope

/// The feedback of both versions: mu and its update.
class Feedback : public Sampler {
  public:
    Feedback(double tau, double eta) : tau_(tau), eta_(eta), mu_(2 * tau) {}

    void drawn(const Context& context) override {
        id_ = context.id;
        p_ = context.p;
    }
    void accept(int32_t id) override {
        // Tokens that were not drawn, such as the prompt's, have no surprise.
        if (id == id_ && p_ > 0) mu_ -= eta_ * (-exact_log(p_) / kLn2 - tau_);
        id_ = -1;
    }
    void reset() override {
        mu_ = 2 * tau_;
        id_ = -1;
    }
    void forget_text() override { id_ = -1; }

  protected:
    double mu() const { return mu_; }

  private:
    double tau_, eta_, mu_;
    double p_ = 0;
    int32_t id_ = -1;  // drawn and not yet accepted
};

class Mirostat1 final : public Feedback {
  public:
    Mirostat1(double tau, double eta, int32_t n_vocab)
        : Feedback(tau, eta), log_vocab_(exact_log(static_cast<double>(n_vocab))) {
        for (size_t i = 0; i + 1 < kEstimated; i++)
            log_ranks_[i] = exact_log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    }

    void apply(Candidates& candidates, Context&) override { candidates.keep_top(count(candidates)); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<Mirostat1>(*this); }

  private:
    /// Number of tokens to keep: estimates Zipf's exponent s by least squares over neighbours in rank, then
    /// solves for the k whose tokens have surprise mu.
    size_t count(Candidates& candidates) const {
        const std::span<const Candidate> best = candidates.top(kEstimated);
        double products = 0, squares = 0;
        for (size_t i = 0; i + 1 < best.size(); i++) {
            if (std::isinf(best[i].logit) || std::isinf(best[i + 1].logit)) break;
            const double log_ratio =
                static_cast<double>(best[i].logit) - static_cast<double>(best[i + 1].logit);
            products += log_ranks_[i] * log_ratio;
            squares += log_ranks_[i] * log_ranks_[i];
        }
        if (squares == 0) return 1;
        const double s = products / squares, epsilon = s - 1;
        const double size = static_cast<double>(candidates.size());
        if (s < 1e-9) return candidates.size();  // all alike
        // (epsilon * 2^mu / (1 - n_vocab^-epsilon))^(1/s) in logarithms; its limit if epsilon is 0.
        const double power = exact_exp(std::clamp(-epsilon * log_vocab_, -600.0, 600.0));
        const double ratio = std::abs(epsilon) < 1e-9 ? 1 / log_vocab_ : epsilon / (1 - power);
        if (!(ratio > 0) || std::isinf(ratio)) return candidates.size();
        const double log_count = (exact_log(ratio) + mu() * kLn2) / s;
        if (log_count >= exact_log(size)) return candidates.size();
        return log_count <= 0 ? 1 : static_cast<size_t>(exact_exp(log_count));
    }

    double log_vocab_;
    double log_ranks_[kEstimated - 1];  // log((i + 2) / (i + 1))
};

class Mirostat2 final : public Feedback {
  public:
    using Feedback::Feedback;

    void apply(Candidates& candidates, Context&) override {
        const double highest = 100;  // no token that can be drawn has more bits of surprise
        if (mu() >= highest) return;
        candidates.keep_likely(mu() <= 0 ? 1.0 : exact_exp(-mu() * kLn2));
    }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<Mirostat2>(*this); }
};

Result<std::unique_ptr<Sampler>> make_mirostat(const Params& params, const Setting& setting) {
    const double version = params.number("mirostat");
    const double tau = params.number("mirostat_tau"), eta = params.number("mirostat_eta");
    if (version == 1) return std::make_unique<Mirostat1>(tau, eta, std::max(setting.n_vocab, 2));
    if (version == 2) return std::make_unique<Mirostat2>(tau, eta);
    return nullptr;
}

}  // namespace

constexpr SamplerInfo kMirostat = {"mirostat", "Mirostat: keeps the entropy near a target", kMirostatParams,
                                   make_mirostat};

}  // namespace tessera::sample
