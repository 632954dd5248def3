// logit_bias: adds a constant to the logits of chosen tokens; -inf bans one. Parses the list
// "ID(+|-)VALUE,...". Ids are checked against the vocabulary when the sampler is built.
#include <algorithm>
#include <cmath>

#include "common/strings.h"
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kLogitBias;

namespace {

constexpr double kMaxBias = 1e6;

struct Bias {
    int32_t id;
    double value;
};

/// Sorted by id.
struct Biases {
    std::vector<int32_t> ids;
    std::vector<double> values;
};

tl::unexpected<Error> bad_item(std::string_view item) {
    return fail(
        ErrorCode::InvalidArgument,
        "logit_bias: expected ID(+|-)VALUE with ID from 0 and VALUE up to %g or -inf, such as 15043+1.5; "
        "found '%s'",
        kMaxBias, printable(item).c_str());
}

Result<Bias> parse_item(std::string_view item) {
    const size_t sign = item.find_first_of("+-");
    if (sign == std::string_view::npos) return bad_item(item);
    const std::optional<int64_t> id = parse_int(item.substr(0, sign));
    if (!id || *id < 0 || *id > INT32_MAX) return bad_item(item);
    const std::string_view size = item.substr(sign + 1);
    if (item[sign] == '-' && size == "inf") return Bias{static_cast<int32_t>(*id), -INFINITY};
    if (size.find_first_of("0123456789.") != 0) return bad_item(item);
    const std::optional<double> value = parse_double(size);
    if (!value || !(*value <= kMaxBias)) return bad_item(item);
    return Bias{static_cast<int32_t>(*id), item[sign] == '-' ? -*value : *value};
}

Result<Biases> parse_biases(std::string_view text) {
    std::vector<Bias> biases;
    if (trim(text).empty()) return Biases();
    for (std::string_view item : split(text, ',')) {
        TSR_TRY(const Bias bias, parse_item(trim(item)));
        biases.push_back(bias);
    }
    std::sort(biases.begin(), biases.end(), [](const Bias& a, const Bias& b) { return a.id < b.id; });
    const auto same = [](const Bias& a, const Bias& b) { return a.id == b.id; };
    const auto twice = std::adjacent_find(biases.begin(), biases.end(), same);
    if (twice != biases.end()) {
        return fail(ErrorCode::InvalidArgument, "logit_bias: expected each token once, found token %d twice",
                    twice->id);
    }
    Biases sorted;
    for (const Bias& bias : biases) {
        sorted.ids.push_back(bias.id);
        sorted.values.push_back(bias.value);
    }
    return sorted;
}

Result<void> check_logit_bias(std::string_view text) {
    TSR_TRY_VOID(parse_biases(text));
    return {};
}

constexpr ParamInfo kLogitBiasParams[] = {
    {.name = "logit_bias",
     .kind = ParamKind::Text,
     .form = "ID(+|-)VALUE,...",
     .check = check_logit_bias,
     .help = "Add VALUE to the logit of token ID; `-inf` bans the token."},
};

class LogitBias final : public Sampler {
  public:
    explicit LogitBias(Biases biases) : biases_(std::move(biases)) {}

    void apply(Candidates& candidates, Context&) override {
        candidates.edit(biases_.ids, [&](size_t i, double logit) {
            const double value = biases_.values[i];
            return value == -INFINITY ? value : logit + value;  // +inf - inf would be NaN
        });
    }

    std::unique_ptr<Sampler> clone() const override { return std::make_unique<LogitBias>(*this); }

  private:
    Biases biases_;
};

Result<std::unique_ptr<Sampler>> make_logit_bias(const Params& params, const Setting& setting) {
    TSR_TRY(Biases biases, parse_biases(params.text("logit_bias")));
    if (biases.ids.empty()) return nullptr;
    if (biases.ids.back() >= setting.n_vocab) {
        return fail(ErrorCode::InvalidArgument, "logit_bias: expected token ids from 0 to %d, found %d",
                    setting.n_vocab - 1, biases.ids.back());
    }
    return std::make_unique<LogitBias>(std::move(biases));
}

}  // namespace

constexpr SamplerInfo kLogitBias = {
    "logit_bias", "raises, lowers or bans chosen tokens", kLogitBiasParams, make_logit_bias, 0, true};

}  // namespace tessera::sample
