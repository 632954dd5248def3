#pragma once
// Fields, and products of bytes in words, for vectors of two groups; avxvnni/words.h explains the method.
// Over the operations of the header that includes this.

namespace tessera::kernels {
namespace {

/// As for one group (avx2/int_ops.h).
TSR_INLINE WideInt field_at(WideInt v, int bits, int from, int to) {
    const WideInt moved = from > to ? right16(v, from - to) : from < to ? left16(v, to - from) : v;
    return both(moved, bytes_like(moved, ((1 << bits) - 1) << to));
}
TSR_INLINE WideInt with_field(WideInt code, WideInt v, int bits, int from, int to) {
    return either(code, field_at(v, bits, from, to));
}

/// As for one group's head (packed_unpack.inl).
TSR_INLINE RowsOfBoth rows_of(const TwoGroups&, const uint8_t* p) { return {p}; }
TSR_INLINE WideInt load_u8_scale(RowsOfBoth p) { return as_bits(to_float(load_u8_words(p))); }

/// The integer scale of each row, and -kBias times the scale: one fma removes the bias from a sum and scales
/// it.
struct WideScale {
    WideFlt by, less;
};

TSR_INLINE WideInt wide_bias() { return as_bits(broadcast_wide_float(kBias)); }
template <class AnyAct>
TSR_INLINE WideInt first_dot(WideInt w, const AnyAct& a) {
    return dot_words(wide_bias(), w, a);
}
template <class AnyAct>
TSR_INLINE WideInt next_dot(WideInt sum, WideInt w, const AnyAct& a) {
    return dot_words(sum, w, a);
}
TSR_INLINE WideInt first_halves(WideInt a, WideInt b) { return dot_halves(wide_bias(), a, b); }
TSR_INLINE WideFlt to_float(WideFlt sum) { return sum; }
TSR_INLINE WideFlt scaled(WideInt sum, const WideScale& scale) {
    return add_product(scale.less, as_float(sum), scale.by);
}
TSR_INLINE WideFlt add_scaled(WideFlt sum, WideInt part, const WideScale& scale) {
    return add_product(sum, sub(as_float(part), broadcast_wide_float(kBias)), scale.by);
}

/// The vectors of a panel's tile (see NativeVec in kernels/packed_sources.inl).
struct WideVec {
    using At = TwoGroups;
    using Int = WideInt;
    using Flt = WideFlt;
    using Act = WideAct;
    using Part = WideInt;
    using Sum = WideFlt;
    static constexpr int kGroups = 2;
    static constexpr int kTokens = 1, kJoined = 1;
    static constexpr int kTile = 6;

    TSR_INLINE Int load(const void* p) { return load_wide(p); }
    TSR_INLINE Flt load_float(const float* p) { return load_wide_float(p); }
    TSR_INLINE Int join(kernels::Int a, kernels::Int b) { return join_wide(a, b); }
    TSR_INLINE Flt join(kernels::Flt a, kernels::Flt b) { return join_wide(a, b); }
    TSR_INLINE void store_groups(float* first, float* second, Flt v) {
        kernels::store_groups(first, second, v);
    }
    TSR_INLINE Int broadcast4(const void* p, int64_t) {
        int32_t v;
        __builtin_memcpy(&v, p, sizeof v);
        return broadcast_wide(v);
    }
    TSR_INLINE Flt broadcast_float(const float* p, int64_t) { return broadcast_wide_float(*p); }
    TSR_INLINE Flt no_float() { return broadcast_wide_float(0.0f); }
    TSR_INLINE Act act_group(const int8_t* q, int64_t, int g) { return wide_act_group(q, g); }
    TSR_INLINE Int broadcast_scale(int v) { return as_bits(broadcast_wide_float(static_cast<float>(v))); }
    TSR_INLINE WideScale scale(Int scale) {
        return {as_float(scale), mul(as_float(scale), broadcast_wide_float(-kBias))};
    }
};

}  // namespace
}  // namespace tessera::kernels
