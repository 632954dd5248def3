// Gathers rows of weights into groups of lanes, and scatters codes back to rows.
#include "quants/encode/search.inl"

namespace tessera::quants {
namespace {

/// The power of two divided out of some weights, and whether they can be encoded at all.
struct Norm {
    float factor;  // weights are multiplied by this power of two
    float inverse;
    float importance_factor;
    bool finite;
    bool weighted;  // some importance is positive
};

/// An importance small enough not to change the sums of weights that count, and large enough to distinguish
/// weights that do not.
constexpr float kLeastWeight = 0x1p-20f;

/// 2^-k for a magnitude in [2^k, 2^(k+1)).
TSR_INLINE float power_below(uint32_t magnitude_bits, float* inverse) {
    const uint32_t exponent = magnitude_bits >> 23 ? magnitude_bits >> 23 : 1;
    const uint32_t opposite = exponent < 254 ? 254 - exponent : 1;
    *inverse = __builtin_bit_cast(float, (254 - opposite) << 23);
    return __builtin_bit_cast(float, opposite << 23);
}

TSR_INLINE Norm norm_of(const float* x, const float* importance, int n) {
    uint32_t largest = 0, largest_weight = 0;
    for (int e = 0; e < n; e++) {
        const uint32_t bits = __builtin_bit_cast(uint32_t, x[e]) & 0x7fffffffu;
        if (bits > largest) largest = bits;
    }
    for (int e = 0; importance && e < n; e++) {
        const uint32_t bits = __builtin_bit_cast(uint32_t, importance[e]);
        if (bits > largest_weight && bits < 0x7f800000u) largest_weight = bits;  // neither negative nor NaN
    }
    Norm norm;
    float ignored;
    norm.finite = largest < 0x7f800000u;
    norm.weighted = largest_weight > 0;
    norm.factor = power_below(norm.finite && largest ? largest : 0x3f800000u, &norm.inverse);
    norm.importance_factor = power_below(norm.weighted ? largest_weight : 0x3f800000u, &ignored);
    return norm;
}

/// One lane of a group. Weights that are not finite become zeros.
template <int n>
TSR_INLINE void load_lane(Group<n>& g, int lane, const float* x, const float* importance, const Norm& norm) {
    float* xs = reinterpret_cast<float*>(g.x) + lane;
    float* ws = reinterpret_cast<float*>(g.w) + lane;
    for (int e = 0; e < n; e++) xs[e * kLanes] = norm.finite ? x[e] * norm.factor : 0.0f;
    if (!norm.weighted) {
        for (int e = 0; e < n; e++) ws[e * kLanes] = 1.0f;
        return;
    }
    for (int e = 0; e < n; e++) {
        const float w = importance[e] * norm.importance_factor;
        ws[e * kLanes] = w > kLeastWeight ? (w < 2.0f ? w : 2.0f) : kLeastWeight;
    }
}

/// Codes of all lanes, weight e of lane l at codes[n * l + e].
template <class Levels, int n>
TSR_INLINE void put_codes(const Group<n>& g, const Flt& step, const Flt& offset, uint8_t* codes) {
    const Flt inverse = quotient(all(1.0f), step);
    for (int e = 0; e < n; e++) {
        int32_t lanes[kLanes];
        store(lanes, Levels::code(Levels::nearest((g.x[e] - offset) * inverse)));
        TSR_UNROLL
        for (int l = 0; l < kLanes; l++) codes[n * l + e] = static_cast<uint8_t>(lanes[l]);
    }
}

/// Rounds each lane's value times `factors` to the nearest half, returned as bits; `values` becomes the value
/// of the half times `inverses`.
TSR_INLINE void round_to_halves(Flt& values, const float* factors, const float* inverses, uint16_t* bits) {
    float lanes[kLanes];
    store(lanes, values);
    for (int l = 0; l < kLanes; l++) {
        bits[l] = half_bits(lanes[l] * inverses[l]);
        lanes[l] = half_value(bits[l]) * factors[l];
    }
    values = load(lanes);
}

}  // namespace
}  // namespace tessera::quants
