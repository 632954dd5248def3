// dry: penalizes tokens that would extend a repetition, more so the longer it is ("don't repeat yourself":
// p-e-w, text-generation-webui, 2024). If the end of the text occurred before, the token that followed it
// then loses multiplier * base^(length - allowed_length). A repetition does not extend across a sequence
// breaker. Assumes that every token of the text, prompt included, is accept()ed.
#include <cmath>
#include <optional>

#include "src/sample/byte_matcher.h"
#include "src/sample/repeats.h"
#include "src/sample/sampler.h"
#include "src/sample/string_list.h"

namespace tessera::sample {

extern const SamplerInfo kDry;

namespace {

Result<void> check_breakers(std::string_view text) {
    const auto strings = parse_string_list(text);
    if (!strings) return fail_in("dry_sequence_breakers", strings.error());
    return {};
}

constexpr ParamInfo kDryParams[] = {
    {.name = "dry_multiplier",
     .default_value = 0,
     .min = 0,
     .max = 100,
     .help = "DRY: strength of the penalty on tokens that extend a repetition; 0: off."},
    {.name = "dry_base",
     .default_value = 1.75,
     .min = 1,
     .max = 100,
     .help = "The penalty is multiplied by this for each further repeated token."},
    {.name = "dry_allowed_length",
     .kind = ParamKind::Int,
     .default_value = 2,
     .min = 1,
     .max = 1048576,
     .help = "Repetitions shorter than this many tokens are not penalized."},
    {.name = "dry_penalty_last_n",
     .kind = ParamKind::Int,
     .default_value = 64,
     .min = -1,
     .max = 1048576,
     .help = "Number of last tokens, prompt included, searched for repetitions; 0: none, -1: the context."},
    {.name = "dry_sequence_breakers",
     .kind = ParamKind::List,
     .default_text = "\\n,:,\",*",
     .form = "STRING,STRING,...",
     .check = check_breakers,
     .help = "Repetitions are not counted across these strings."},
};

// Keeps penalties finite; larger than any difference of logits.
constexpr double kMaxPenalty = 1e30;

class Dry final : public Sampler {
  public:
    struct Settings {
        double multiplier, base;
        size_t allowed_length, n_window;
    };

    Dry(const Settings& settings, int32_t n_vocab, const text::Tokenizer* tokenizer,
        std::optional<ByteMatcher> breakers)
        : settings_(settings),
          tokenizer_(tokenizer),
          breakers_(std::move(breakers)),
          repeats_(settings.n_window),
          lengths_(static_cast<size_t>(n_vocab)) {
        ids_.reserve(std::min(settings.n_window, lengths_.size()));
    }

    void apply(Candidates& candidates, Context&) override {
        if (n_unbroken_ < settings_.allowed_length) return;
        repeats_.find(n_unbroken_, [&](int32_t id, size_t length) {
            if (length < settings_.allowed_length) return;
            uint32_t& longest = lengths_[static_cast<size_t>(id)];
            if (longest == 0) ids_.push_back(id);
            longest = std::max(longest, static_cast<uint32_t>(length));
        });
        if (ids_.empty()) return;
        candidates.edit(ids_, [&](size_t i, double logit) {
            return logit - penalty(lengths_[static_cast<size_t>(ids_[i])]);
        });
        for (const int32_t id : ids_) lengths_[static_cast<size_t>(id)] = 0;
        ids_.clear();
    }

    void accept(int32_t id) override {
        repeats_.push(id);
        const bool broken = breakers_ && breakers_->push_all(tokenizer_->token_bytes(id));
        n_unbroken_ = broken ? 0 : n_unbroken_ + 1;
    }
    void reset() override {
        repeats_.clear();
        n_unbroken_ = 0;
        if (breakers_) breakers_->reset();
    }
    std::unique_ptr<Sampler> clone() const override {
        auto copy = std::make_unique<Dry>(*this);
        copy->ids_.reserve(ids_.capacity());
        return copy;
    }

  private:
    double penalty(uint32_t length) const {
        double penalty = settings_.multiplier;
        for (size_t i = settings_.allowed_length; i < length && penalty < kMaxPenalty; i++) {
            if (settings_.base == 1) break;
            penalty *= settings_.base;
        }
        return std::min(penalty, kMaxPenalty);
    }

    Settings settings_;
    const text::Tokenizer* tokenizer_;
    std::optional<ByteMatcher> breakers_;
    Repeats repeats_;
    size_t n_unbroken_ = 0;          // tokens since the last breaker
    std::vector<uint32_t> lengths_;  // [n_vocab] longest repetition that the token extends; 0 between steps
    std::vector<int32_t> ids_;       // ids with a nonzero length
};

Result<std::unique_ptr<Sampler>> make_dry(const Params& params, const Setting& setting) {
    const double last_n = params.number("dry_penalty_last_n");
    if (params.number("dry_multiplier") == 0 || last_n == 0) return nullptr;
    const std::vector<std::string> breakers = params.list("dry_sequence_breakers");
    std::optional<ByteMatcher> matcher;
    if (!breakers.empty()) {
        TSR_TRY_VOID(need_tokenizer(setting, "dry_sequence_breakers"));
        matcher.emplace(breakers);
    }
    const double n_window = last_n < 0 ? static_cast<double>(setting.window()) : last_n;
    return std::make_unique<Dry>(Dry::Settings{params.number("dry_multiplier"), params.number("dry_base"),
                                               static_cast<size_t>(params.number("dry_allowed_length")),
                                               static_cast<size_t>(n_window)},
                                 setting.n_vocab, setting.tokenizer, std::move(matcher));
}

}  // namespace

constexpr SamplerInfo kDry = {"dry", "DRY: penalizes tokens that extend a repetition", kDryParams, make_dry,
                              'd'};

}  // namespace tessera::sample
