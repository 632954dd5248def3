#pragma once
// Float vector functions of one instruction set: everything between the matrix products. One constant table
// per ISA, all with the same bits (docs/design/numerics.md): reductions run in 16 virtual lanes (element i
// belongs to lane i % 16), each lane in rising i from +0, and end in the fixed tree lane[j] += lane[j + 8],
// 4, 2, 1. Included by ISA units: only C headers here, and nothing inline.
#include <stddef.h>
#include <stdint.h>

namespace tessera::cpu {

/// Positions of quantized values at once at most, and from one row of their weights to the next, a constant
/// so that rows take no registers.
constexpr int64_t kAttnValuesPositions = 512;

/// Quantized values times int16 weights, for the 32 elements of a block:
/// out[r, e] = float(sum_i q[r, i] * v[i, e]) * (top[r] * (1 / 32767)). The sum of kAttnValuesPositions is
/// exact.
struct AttnValuesArgs {
    const int16_t* q;  // [n_rows, positions], rows kAttnValuesPositions apart
    const float* top;  // [n_rows] the value of 32767
    // The positions in parts, each n_pairs[part] pairs of positions: codes[part][(pair * head_dim + e) * 2 +
    // position % 2].
    const int8_t* const* codes;
    const int64_t* n_pairs;
    int64_t n_parts;
    int64_t head_dim;
    int64_t n_rows;
    float* out;  // rows head_dim apart
    /// Prefetched meanwhile: next_bytes at each of next[n_parts] that is not null, to L1 or L2.
    const void* const* next = nullptr;
    int64_t next_bytes = 0;
    bool next_to_l1 = false;
};

struct VecTable {
    const char* name;

    /// y[i] = (x[i] * s) * w[i], s = 1 / sqrt(sum_i x[i]^2 / n + eps); the sum by fma in 16 lanes. w null =
    /// ones. y may be x. Any n >= 1.
    void (*rms_norm)(const float* x, const float* w, int64_t n, float eps, float* y);

    /// y[i] = fma(x[i], scale, y[i]).
    void (*add_scaled)(float* y, const float* x, float scale, int64_t n);
    /// x[i] = x[i] * scale.
    void (*scale)(float* x, float scale, int64_t n);
    /// x[i] = x[i] + b[i].
    void (*add)(float* x, const float* b, int64_t n);

    /// out[i] = silu(gate[i]) * up[i], silu(g) = g / (1 + exp(-g)). out may be gate or up.
    void (*silu_mul)(const float* gate, const float* up, float* out, int64_t n);
    /// The same with gelu(g) = g / (1 + exp(-2 z)), z = sqrt(2 / pi) (g + 0.044715 g^3), the tanh form.
    void (*gelu_mul)(const float* gate, const float* up, float* out, int64_t n);
    /// out[i] = g / (1 + exp(-1.702 g)) * (u + 1), g = min(gate[i], 7), u = up[i] held within +-7 (gpt-oss).
    void (*clamped_silu_mul)(const float* gate, const float* up, float* out, int64_t n);
    /// x[i] = cap * tanh(x[i] / cap), cap > 0.
    void (*softcap)(float* x, float cap, int64_t n);

    /// Rotates the first n_rot elements of one head. cs: [n_rot / 2, 2] cosine and sine, already times the
    /// magnitude. a' = fma(a, c, -(b * s)), b' = fma(a, s, b * c). Adjacent pairs (2i, 2i + 1):
    void (*rope_norm)(float* x, const float* cs, int64_t n_rot);
    /// Split halves (i, i + n_rot / 2):
    void (*rope_neox)(float* x, const float* cs, int64_t n_rot);

    /// One chunk of attention scores in place, scale > 0: for lo <= i < hi, s[i] = 2^fma(s[i], c, -(max s *
    /// c)), c = scale * log2(e), so exp of what the scaled score lies below the largest; outside [lo, hi) up
    /// to n, s[i] = 0. With cap > 0 the scores are first replaced by cap * tanh(s * scale / cap), and scale
    /// by 1. *max_out = max s * scale, *sum_out = sum_i s[i] in 16 lanes over [0, n). n % 16 == 0, lo < hi.
    void (*softmax_chunk)(float* s, int64_t lo, int64_t hi, int64_t n, float scale, float cap, float* max_out,
                          float* sum_out);
    /// Joins chunk results (m, l, o[n]) into the running (M, L, O[n]): new_m = max(M, m), a = exp(M - new_m),
    /// b = exp(m - new_m), L = fma(L, a, l * b), O = fma(O, a, o * b). The first chunk is copied by the
    /// caller.
    void (*softmax_merge)(float* run_max, float* run_sum, float* run_out, float chunk_max, float chunk_sum,
                          const float* chunk_out, int64_t n);

    /// exp of the contract, for callers with few values: out[i] = exp(x[i]).
    void (*exp)(const float* x, float* out, int64_t n);

    /// IEEE half <-> f32, round to nearest even.
    void (*f32_to_f16)(const float* x, uint16_t* y, int64_t n);
    void (*f16_to_f32)(const uint16_t* x, float* y, int64_t n);

    /// The orthonormal Walsh-Hadamard transform of x [n], n a power of two >= 16, in place: log2(n) rounds of
    /// (a, b) -> (a + b, a - b) over pairs at distance 1, 2, 4, ..., then one multiplication by `scale`.
    void (*hadamard)(float* x, int64_t n, float scale);

    /// The largest a[i] * b[i] and 0; a NaN is never the largest. n % 16 == 0.
    float (*largest_product)(const float* a, const float* b, int64_t n);
    /// q[i] = rint((a[i] * b[i]) * (32767 / top)), ties to even; all 0 where top < 2^-100. |a[i] * b[i]| <=
    /// top; what a NaN gives is undefined. n % 16 == 0.
    void (*products_to_int16)(const float* a, const float* b, int64_t n, float top, int16_t* q);
    /// n bytes to 2 n codes: the low nibble less 8, then the high one.
    void (*nibble_pairs_to_int8)(const uint8_t* nibbles, int8_t* codes, int64_t n);
    void (*attn_values_block)(const AttnValuesArgs& args);

    /// Prefetches n bytes for writing: where other cores have read them, stores would wait for one cache line
    /// after the other. An instruction of its own, unlike prefetches for reading (ggml-like/cpu/prefetch.h).
    void (*prefetch_for_write)(void* p, int64_t n);
};

extern const VecTable kVecScalar;
extern const VecTable kVecAvx2;
extern const VecTable kVecAvxVnni;
extern const VecTable kVecAvx512Vnni;
extern const VecTable kVecNeon;
extern const VecTable kVecDotprod;
extern const VecTable kVecI8mm;

/// The table with the same name as a kernel table; null when there is none.
const VecTable* vec_table(const char* isa_name);

}  // namespace tessera::cpu
