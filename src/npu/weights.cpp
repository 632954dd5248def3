// Quantizes rows of floats to signed bytes. The codes of a block are chosen for the scale that the device
// uses, m * scale, instead of the block's ideal scale: up to 0.5 dB better at no cost.
#include "src/npu/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace tessera::npu {

namespace {

using Kind = WeightRecipe::Kind;

constexpr WeightRecipe kRecipes[] = {{Kind::Int8, 0},       {Kind::Lpbq, 16},       {Kind::Lpbq, 32},
                                     {Kind::Lpbq, 64},      {Kind::SignedLpbq, 16}, {Kind::SignedLpbq, 32},
                                     {Kind::SignedLpbq, 64}};

/// The largest code and the largest multiplier of a recipe.
struct Limits {
    float low, high, mult;
};
Limits limits(Kind kind) {
    if (kind == Kind::Int8) return {-127, 127, 1};
    return kind == Kind::Lpbq ? Limits{-7, 7, 16} : Limits{-8, 7, 15};
}

float largest_magnitude(const float* w, int64_t n) {
    float largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(w[i]));
    return largest;
}

/// The ideal step of a block. Signed: the weight of the largest magnitude maps to -8, so the step has the
/// opposite sign.
float block_step(const float* w, int64_t n, Kind kind) {
    const float largest = largest_magnitude(w, n);
    if (kind == Kind::Lpbq) return largest / 7;
    for (int64_t i = 0; i < n; ++i)
        if (w[i] == largest) return -largest / 8;
    return largest / 8;
}

/// q[i] = w[i] / step rounded, ties to even. The step may be so small that the quotient is infinite.
void to_codes(const float* w, int64_t n, float step, const Limits& limit, int8_t* q) {
    if (step == 0) {
        std::fill_n(q, n, int8_t{0});
        return;
    }
    // Floats of this magnitude are integers, so adding it rounds; the limits are integers, so clamping can
    // precede rounding.
    constexpr float kWhole = 0x1.8p23f;
    for (int64_t i = 0; i < n; ++i) {
        const float code = std::min(std::max(w[i] / step, limit.low), limit.high);
        q[i] = static_cast<int8_t>(code + kWhole - kWhole);
    }
}

double square_error(const float* w, int64_t n, float step, const int8_t* q) {
    // Several independent sums for instruction-level parallelism.
    constexpr int64_t kSums = 4;
    double sums[kSums] = {};
    for (int64_t i = 0; i < n; i += kSums)
        for (int64_t j = 0; j < std::min(kSums, n - i); ++j) {
            const double error = static_cast<double>(w[i + j]) - static_cast<double>(step) * q[i + j];
            sums[j] += error * error;
        }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Chooses the multiplier and codes of one block. A multiplier up to an eighth smaller clips the largest
/// weight but may reduce the error of the others; for 4-bit sources it may match their steps.
int8_t block_codes(const float* w, int64_t n, float step, float scale, const Limits& limit, int8_t* q) {
    const float ratio = scale > 0 ? std::rint(std::fabs(step) / scale) : 1.0f;
    const int most = static_cast<int>(std::min(std::max(ratio, 1.0f), limit.mult));
    const auto signed_mult = [&](int m) { return static_cast<int8_t>(step < 0 ? -m : m); };
    int best = most;
    double least = std::numeric_limits<double>::infinity();
    for (int m = most; m >= std::max(1, most * 7 / 8); --m) {
        const float width = static_cast<float>(signed_mult(m)) * scale;
        to_codes(w, n, width, limit, q);
        const double error = square_error(w, n, width, q);
        if (error < least) best = m;
        least = std::min(least, error);
    }
    to_codes(w, n, static_cast<float>(signed_mult(best)) * scale, limit, q);
    return signed_mult(best);
}

/// Quantizes one row of blocks; returns the row's scale.
float row_of_blocks(const WeightRecipe& recipe, const float* w, int64_t n_in, int8_t* q, int8_t* mult) {
    const Limits limit = limits(recipe.kind);
    const auto length = [&](int64_t b) { return std::min(recipe.block, n_in - b * recipe.block); };
    float largest = 0;
    for (int64_t b = 0; b < recipe.n_blocks(n_in); ++b)
        largest = std::max(largest, std::fabs(block_step(w + b * recipe.block, length(b), recipe.kind)));
    const float scale = largest / limit.mult;
    for (int64_t b = 0; b < recipe.n_blocks(n_in); ++b) {
        const float* block = w + b * recipe.block;
        const float step = block_step(block, length(b), recipe.kind);
        mult[b] = block_codes(block, length(b), step, scale, limit, q + b * recipe.block);
    }
    return scale;
}

}  // namespace

std::string WeightRecipe::name() const {
    if (!has_blocks()) return "int8";
    return (kind == Kind::Lpbq ? "lpbq" : "signed-lpbq") + std::to_string(block);
}

std::span<const WeightRecipe> weight_recipes() { return kRecipes; }

Result<WeightRecipe> parse_weight_recipe(std::string_view name) {
    std::string names;
    for (const WeightRecipe& recipe : kRecipes) {
        if (recipe.name() == name) return recipe;
        names += (names.empty() ? "" : ", ") + recipe.name();
    }
    return fail(ErrorCode::InvalidArgument, "weight recipe: expected one of %s, found '%.*s'", names.c_str(),
                static_cast<int>(std::min(name.size(), size_t{40})), name.data());
}

SignalToNoise& SignalToNoise::operator+=(const SignalToNoise& other) {
    signal += other.signal;
    noise += other.noise;
    return *this;
}

double SignalToNoise::db() const {
    return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

SignalToNoise QuantizedWeights::row_error(const float* w, int64_t output) const {
    SignalToNoise sum;
    const float unit = scale[static_cast<size_t>(output)];
    const int8_t* codes = q.data() + output * n_in;
    for (int64_t first = 0; first < n_in; first += recipe.has_blocks() ? recipe.block : n_in) {
        const int mult = multiplier(output, first);
        const int64_t end = recipe.has_blocks() ? std::min(first + recipe.block, n_in) : n_in;
        for (int64_t i = first; i < end; ++i) {
            const auto exact = static_cast<double>(w[i]),
                       error = exact - static_cast<double>(static_cast<float>(codes[i] * mult) * unit);
            sum.signal += exact * exact;
            sum.noise += error * error;
        }
    }
    return sum;
}

double QuantizedWeights::sqnr_db(const float* w) const {
    SignalToNoise sum;
    for (int64_t o = 0; o < n_out; ++o) sum += row_error(w + o * n_in, o);
    return sum.db();
}

QuantizedWeights empty_weights(const WeightRecipe& recipe, int64_t n_out, int64_t n_in) {
    return {.recipe = recipe,
            .n_out = n_out,
            .n_in = n_in,
            .q = std::vector<int8_t>(static_cast<size_t>(n_out * n_in)),
            .block_mult = std::vector<int8_t>(static_cast<size_t>(n_out * recipe.n_blocks(n_in))),
            .scale = std::vector<float>(static_cast<size_t>(n_out))};
}

Result<void> quantize_row(const float* w, int64_t output, QuantizedWeights& to) {
    for (int64_t i = 0; i < to.n_in; ++i)
        if (!std::isfinite(w[i]))
            return fail(ErrorCode::Malformed,
                        "weight of output %lld, input %lld: expected a finite number, found %g",
                        static_cast<long long>(output), static_cast<long long>(i), static_cast<double>(w[i]));
    int8_t* q = to.q.data() + output * to.n_in;
    float& scale = to.scale[static_cast<size_t>(output)];
    if (to.recipe.has_blocks()) {
        int8_t* mult = to.block_mult.data() + output * to.recipe.n_blocks(to.n_in);
        scale = row_of_blocks(to.recipe, w, to.n_in, q, mult);
    } else {
        scale = largest_magnitude(w, to.n_in) / 127;
        to_codes(w, to.n_in, scale, limits(to.recipe.kind), q);
    }
    return {};
}

Result<QuantizedWeights> quantize_weights(const WeightRecipe& recipe, const float* w, int64_t n_out,
                                          int64_t n_in) {
    QuantizedWeights out = empty_weights(recipe, n_out, n_in);
    for (int64_t o = 0; o < n_out; ++o) TSR_TRY_VOID(quantize_row(w + o * n_in, o, out));
    return out;
}

}  // namespace tessera::npu
