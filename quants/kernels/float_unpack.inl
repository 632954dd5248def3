// Unpackers, for any Isa: consecutive blocks of Isa::kRowLanes weight rows to a k-major f32 panel, every
// weight bit-equal to the reference decoder's. A vector holds one number of each row: four packed bytes of
// every row are a lane, and fields are extracted in place. Included by the ISA units after their isa.h.
// Layouts and formulas: quants/blocks.h.
//
// The arithmetic is exact: a field s bits up in its lane is q * 2^s as an integer and is multiplied by scale
// * 2^-s; scale * q has at most 24 bits in every format, so only the subtraction of a minimum rounds.
#include <stddef.h>

#include "quants/blocks.h"
#include "quants/kernels/formats.h"
#include "quants/kernels/inline.h"
#include "quants/kernels/table.h"

namespace tessera::kernels {
namespace {

using namespace quants;

/// 2^-n for 0 <= n < 32.
constexpr float power_of_half(int n) { return 1.0f / static_cast<float>(1u << n); }

/// Helpers of the unpackers.
template <class Isa>
struct Fields {
    using RowF = typename Isa::RowF;
    using RowI = typename Isa::RowI;

    /// A scale (and minimum) prepared for the kWidth-bit fields at bit kShift of the four bytes of a lane.
    template <int kShift, int kWidth>
    struct Unsigned {
        RowF scale[4];
        RowF min;

        /// x = scale * q - min
        TSR_INLINE Unsigned make(RowF scale, RowF min) {
            Unsigned u;
            TSR_UNROLL
            for (int b = 0; b < 4; b++) {
                const int s = 8 * b + kShift;
                u.scale[b] = s + kWidth == 32 ? scale : Isa::mul_f(scale, Isa::set_f(power_of_half(s)));
            }
            u.min = min;
            return u;
        }

        /// Four k from one dword a row. The topmost field is shifted down: in place it would be negative.
        [[gnu::always_inline]] inline void put(RowI dwords, float* panel) const {
            TSR_UNROLL
            for (int b = 0; b < 4; b++) {
                const int s = 8 * b + kShift;
                const RowI q = s + kWidth == 32 ? Isa::shr(dwords, s)
                                                : Isa::and_i(dwords, Isa::set_i(((1u << kWidth) - 1) << s));
                Isa::store_f(panel + b * kPanelRows, Isa::fms_f(scale[b], Isa::to_float(q), min));
            }
        }
    };

    /// x = scale * q for the signed kWidth-bit fields at bit kShift of the four bytes of a lane.
    template <int kShift, int kWidth>
    TSR_INLINE void put_signed(RowI dwords, RowF scale, float* panel) {
        TSR_UNROLL
        for (int b = 0; b < 4; b++) {
            const int up = 32 - kWidth - kShift - 8 * b;
            const RowI q = Isa::shr_signed(up == 0 ? dwords : Isa::shl(dwords, up), 32 - kWidth);
            Isa::store_f(panel + b * kPanelRows, Isa::mul_f(scale, Isa::to_float(q)));
        }
    }

    /// Byte j % 4 of each lane of bytes[j / 4].
    TSR_INLINE RowI byte_of(const RowI* bytes, int j) {
        return Isa::and_i(Isa::shr(bytes[j / 4], j % 4 * 8), Isa::set_i(0xff));
    }
    TSR_INLINE RowI signed_byte_of(const RowI* bytes, int j) {
        return Isa::shr_signed(Isa::shl(bytes[j / 4], 24 - j % 4 * 8), 24);
    }

    TSR_INLINE RowI low_nibbles(RowI a) { return Isa::and_i(a, Isa::set_i(0x0f0f0f0f)); }
    TSR_INLINE RowI high_nibbles(RowI a) { return low_nibbles(Isa::shr(a, 4)); }
};

/// Calls unpack_block(w, stride, panel) for each block along the rows.
#define TSR_FOR_BLOCKS(Block, w, stride, n_k, panel) \
    for (; n_k > 0; n_k -= Block::kWeights, w += sizeof(Block), panel += Block::kWeights * kPanelRows)

/// Unpack<Isa, id>::run is the RowUnpackFn of a type. Without a specialization: the reference decoder row by
/// row.
template <class Isa, uint32_t kId>
struct Unpack {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        alignas(64) float rows[Isa::kRowLanes][kPanelK];
        for (int r = 0; r < Isa::kRowLanes; r++)
            dequantize_reference(kId, w + static_cast<size_t>(r) * stride, rows[r], n_k);
        const auto* bytes = reinterpret_cast<const uint8_t*>(rows);
        for (int64_t k = 0; k < n_k; k += 4) {
            typename Isa::RowI v[4];
            Isa::load_rows16(bytes + 4 * k, sizeof rows[0], v);
            TSR_UNROLL
            for (int i = 0; i < 4; i++) Isa::store_f(panel + (k + i) * kPanelRows, Isa::as_float(v[i]));
        }
    }
};

// ---- plain floats: any n_k

template <class Isa>
struct Unpack<Isa, kF32> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        int64_t k = 0;
        for (; k + 4 <= n_k; k += 4) {
            typename Isa::RowI v[4];
            Isa::load_rows16(w + 4 * k, stride, v);
            TSR_UNROLL
            for (int i = 0; i < 4; i++) Isa::store_f(panel + (k + i) * kPanelRows, Isa::as_float(v[i]));
        }
        for (; k < n_k; k++)
            Isa::store_f(panel + k * kPanelRows, Isa::as_float(Isa::load_rows4(w + 4 * k, stride)));
    }
};

template <class Isa>
struct Unpack<Isa, kF16> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        int64_t k = 0;
        for (; k + 16 <= n_k; k += 16)
            Isa::transpose_halves(w + 2 * k, stride, panel + k * kPanelRows, kPanelRows);
        for (; k < n_k; k++) Isa::store_f(panel + k * kPanelRows, Isa::load_rows_half(w + 2 * k, stride));
    }
};

template <class Isa>
struct Unpack<Isa, kBF16> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        int64_t k = 0;
        for (; k + 8 <= n_k; k += 8) {
            typename Isa::RowI v[4];
            Isa::load_rows16(w + 2 * k, stride, v);
            TSR_UNROLL
            for (int i = 0; i < 4; i++) {
                float* out = panel + (k + 2 * i) * kPanelRows;
                Isa::store_f(out, Isa::as_float(Isa::shl(v[i], 16)));
                Isa::store_f(out + kPanelRows, Isa::as_float(Isa::and_i(v[i], Isa::set_i(0xffff0000))));
            }
        }
        for (; k < n_k; k++) {
            Isa::store_f(panel + k * kPanelRows,
                         Isa::as_float(Isa::shl(Isa::load_rows2(w + 2 * k, stride), 16)));
        }
    }
};

// ---- 32 weights, one scale

template <class Isa>
struct Unpack<Isa, kQ4_0> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        using Fs = Fields<Isa>;
        TSR_FOR_BLOCKS(BlockQ4_0, w, stride, n_k, panel) {
            const auto d = Isa::load_rows_half(w, stride);
            typename Isa::RowI v[4];
            Isa::load_rows16(w + offsetof(BlockQ4_0, qs), stride, v);
            TSR_UNROLL
            for (int i = 0; i < 4; i++) {
                const auto q = Isa::xor_i(v[i], Isa::set_i(0x88888888));  // q - 8 as signed nibbles
                Fs::template put_signed<0, 4>(q, d, panel + 4 * i * kPanelRows);
                Fs::template put_signed<4, 4>(q, d, panel + (16 + 4 * i) * kPanelRows);
            }
        }
    }
};

template <class Isa>
struct Unpack<Isa, kQ4_1> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        using Fs = Fields<Isa>;
        TSR_FOR_BLOCKS(BlockQ4_1, w, stride, n_k, panel) {
            const auto d = Isa::load_rows_half(w, stride);
            const auto min = Isa::neg_f(Isa::load_rows_half(w + offsetof(BlockQ4_1, m), stride));
            const auto low = Fs::template Unsigned<0, 4>::make(d, min);
            const auto high = Fs::template Unsigned<4, 4>::make(d, min);
            typename Isa::RowI v[4];
            Isa::load_rows16(w + offsetof(BlockQ4_1, qs), stride, v);
            TSR_UNROLL
            for (int i = 0; i < 4; i++) {
                low.put(v[i], panel + 4 * i * kPanelRows);
                high.put(v[i], panel + (16 + 4 * i) * kPanelRows);
            }
        }
    }
};

/// The 5-bit codes of weights 4i .. 4i + 3 and 16 + 4i .. of Q5_0 and Q5_1, a byte each.
template <class Isa>
TSR_INLINE void five_bits(typename Isa::RowI nibbles, typename Isa::RowI qh, int i, typename Isa::RowI& low,
                          typename Isa::RowI& high) {
    const auto fifth = Isa::set_i(0x10101010);
    low = Isa::or_i(Fields<Isa>::low_nibbles(nibbles), Isa::and_i(Isa::bits_to_bytes(qh, 4 * i), fifth));
    high =
        Isa::or_i(Fields<Isa>::high_nibbles(nibbles), Isa::and_i(Isa::bits_to_bytes(qh, 16 + 4 * i), fifth));
}

template <class Isa>
struct Unpack<Isa, kQ5_0> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        using Fs = Fields<Isa>;
        TSR_FOR_BLOCKS(BlockQ5_0, w, stride, n_k, panel) {
            const auto d = Isa::load_rows_half(w, stride);
            const auto qh = Isa::load_rows4(w + offsetof(BlockQ5_0, qh), stride);
            const auto zero = Isa::set_i(0x10101010);
            typename Isa::RowI v[4];
            Isa::load_rows16(w + offsetof(BlockQ5_0, qs), stride, v);
            TSR_UNROLL
            for (int i = 0; i < 4; i++) {
                typename Isa::RowI low, high;
                five_bits<Isa>(v[i], qh, i, low, high);
                Fs::template put_signed<0, 8>(Isa::sub_bytes(low, zero), d, panel + 4 * i * kPanelRows);
                Fs::template put_signed<0, 8>(Isa::sub_bytes(high, zero), d,
                                              panel + (16 + 4 * i) * kPanelRows);
            }
        }
    }
};

template <class Isa>
struct Unpack<Isa, kQ5_1> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        using Fs = Fields<Isa>;
        TSR_FOR_BLOCKS(BlockQ5_1, w, stride, n_k, panel) {
            const auto d = Isa::load_rows_half(w, stride);
            const auto min = Isa::neg_f(Isa::load_rows_half(w + offsetof(BlockQ5_1, m), stride));
            const auto qh = Isa::load_rows4(w + offsetof(BlockQ5_1, qh), stride);
            const auto field = Fs::template Unsigned<0, 8>::make(d, min);
            typename Isa::RowI v[4];
            Isa::load_rows16(w + offsetof(BlockQ5_1, qs), stride, v);
            TSR_UNROLL
            for (int i = 0; i < 4; i++) {
                typename Isa::RowI low, high;
                five_bits<Isa>(v[i], qh, i, low, high);
                field.put(low, panel + 4 * i * kPanelRows);
                field.put(high, panel + (16 + 4 * i) * kPanelRows);
            }
        }
    }
};

template <class Isa>
struct Unpack<Isa, kQ8_0> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        TSR_FOR_BLOCKS(BlockQ8_0, w, stride, n_k, panel) {
            const auto d = Isa::load_rows_half(w, stride);
            for (int half = 0; half < 2; half++) {
                typename Isa::RowI v[4];
                Isa::load_rows16(w + offsetof(BlockQ8_0, qs) + 16 * half, stride, v);
                TSR_UNROLL
                for (int i = 0; i < 4; i++) {
                    Fields<Isa>::template put_signed<0, 8>(v[i], d, panel + (16 * half + 4 * i) * kPanelRows);
                }
            }
        }
    }
};

/// 32 weights of 4 bits in split halves, 16 bytes at qs: scale * table[code].
template <class Isa>
TSR_INLINE void put_table32(const uint8_t* qs, size_t stride, const int8_t* table, typename Isa::RowF scale,
                            float* panel) {
    using Fs = Fields<Isa>;
    typename Isa::RowI v[4];
    Isa::load_rows16(qs, stride, v);
    TSR_UNROLL
    for (int i = 0; i < 4; i++) {
        Fs::template put_signed<0, 8>(Isa::look_up(table, Fs::low_nibbles(v[i])), scale,
                                      panel + 4 * i * kPanelRows);
        Fs::template put_signed<0, 8>(Isa::look_up(table, Fs::high_nibbles(v[i])), scale,
                                      panel + (16 + 4 * i) * kPanelRows);
    }
}

template <class Isa>
struct Unpack<Isa, kIQ4_NL> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        TSR_FOR_BLOCKS(BlockIQ4_NL, w, stride, n_k, panel) {
            put_table32<Isa>(w + offsetof(BlockIQ4_NL, qs), stride, kIq4Values,
                             Isa::load_rows_half(w, stride), panel);
        }
    }
};

template <class Isa>
struct Unpack<Isa, kMXFP4> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        TSR_FOR_BLOCKS(BlockMXFP4, w, stride, n_k, panel) {
            // 2^(e - 128) as bits: (e - 1) << 23, and the subnormals 0x200000 << e for e = 0 and 1.
            uint8_t e[Isa::kRowLanes];
            uint32_t bits[Isa::kRowLanes];
            for (int r = 0; r < Isa::kRowLanes; r++) {
                e[r] = w[static_cast<size_t>(r) * stride];
                bits[r] = e[r] < 2 ? 0x00200000u << e[r] : static_cast<uint32_t>(e[r] - 1) << 23;
            }
            const auto scale =
                Isa::as_float(Isa::load_rows4(reinterpret_cast<const uint8_t*>(bits), sizeof bits[0]));
            put_table32<Isa>(w + offsetof(BlockMXFP4, qs), stride, kMxfp4Values, scale, panel);
        }
    }
};

// ---- K-quants

template <class Isa>
struct Unpack<Isa, kQ2_K> {
    using Fs = Fields<Isa>;
    using RowF = typename Isa::RowF;
    using RowI = typename Isa::RowI;

    /// The 16 bytes v of a half's plane hold the codes of four sub-blocks 32 weights apart, two bits each.
    template <int kPlane>
    TSR_INLINE void put_plane(const RowI v[4], const RowI scales[4], int sub_block, RowF d, RowF dmin,
                              float* panel) {
        const RowI s = Fs::byte_of(scales, sub_block);
        const auto field =
            Fs::template Unsigned<2 * kPlane, 2>::make(Isa::mul_f(d, Isa::to_float(Fs::low_nibbles(s))),
                                                       Isa::mul_f(dmin, Isa::to_float(Isa::shr(s, 4))));
        TSR_UNROLL
        for (int i = 0; i < 4; i++) field.put(v[i], panel + (16 * sub_block + 4 * i) * kPanelRows);
    }

    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        TSR_FOR_BLOCKS(BlockQ2_K, w, stride, n_k, panel) {
            const RowF d = Isa::load_rows_half(w + offsetof(BlockQ2_K, d), stride);
            const RowF dmin = Isa::load_rows_half(w + offsetof(BlockQ2_K, dmin), stride);
            RowI scales[4];
            Isa::load_rows16(w, stride, scales);
            for (int part = 0; part < 4; part++) {  // 16 bytes of qs
                RowI v[4];
                Isa::load_rows16(w + offsetof(BlockQ2_K, qs) + 16 * part, stride, v);
                const int sub_block = 8 * (part / 2) + part % 2;
                put_plane<0>(v, scales, sub_block, d, dmin, panel);
                put_plane<1>(v, scales, sub_block + 2, d, dmin, panel);
                put_plane<2>(v, scales, sub_block + 4, d, dmin, panel);
                put_plane<3>(v, scales, sub_block + 6, d, dmin, panel);
            }
        }
    }
};

template <class Isa>
struct Unpack<Isa, kQ3_K> {
    using Fs = Fields<Isa>;
    using RowF = typename Isa::RowF;
    using RowI = typename Isa::RowI;

    /// The 16 scales plus 32, as bytes. They are loaded with the block's last 16 bytes, from two bytes before
    /// the scales.
    TSR_INLINE void load_scales(const uint8_t* w, size_t stride, RowI scales[4], RowF& d) {
        RowI v[4];
        Isa::load_rows16(w + sizeof(BlockQ3_K) - 16, stride, v);
        RowI packed[3];
        TSR_UNROLL
        for (int i = 0; i < 3; i++) packed[i] = Isa::or_i(Isa::shr(v[i], 16), Isa::shl(v[i + 1], 16));
        d = Isa::low_half(Isa::shr(v[3], 16));
        const RowI top = Isa::set_i(0x30303030);
        scales[0] = Isa::or_i(Fs::low_nibbles(packed[0]), Isa::and_i(Isa::shl(packed[2], 4), top));
        scales[1] = Isa::or_i(Fs::low_nibbles(packed[1]), Isa::and_i(Isa::shl(packed[2], 2), top));
        scales[2] = Isa::or_i(Fs::high_nibbles(packed[0]), Isa::and_i(packed[2], top));
        scales[3] = Isa::or_i(Fs::high_nibbles(packed[1]), Isa::and_i(Isa::shr(packed[2], 2), top));
    }

    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        TSR_FOR_BLOCKS(BlockQ3_K, w, stride, n_k, panel) {
            RowI scales[4];
            RowF d;
            load_scales(w, stride, scales, d);
            for (int part = 0; part < 4; part++) {
                RowI v[4], mask[4];
                Isa::load_rows16(w + offsetof(BlockQ3_K, qs) + 16 * part, stride, v);
                Isa::load_rows16(w + offsetof(BlockQ3_K, hmask) + 16 * (part % 2), stride, mask);
                for (int plane = 0; plane < 4; plane++) {
                    const int sub_block = 8 * (part / 2) + 2 * plane + part % 2;
                    const int bit = sub_block / 2;  // of hmask
                    const RowF scale = Isa::mul_f(
                        d, Isa::to_float(Isa::sub_i(Fs::byte_of(scales, sub_block), Isa::set_i(32))));
                    TSR_UNROLL
                    for (int i = 0; i < 4; i++) {
                        const RowI low = Isa::and_i(Isa::shr(v[i], 2 * plane), Isa::set_i(0x03030303));
                        const RowI high = Isa::and_i(Isa::shr(mask[i], bit), Isa::set_i(0x01010101));
                        const RowI q =
                            Isa::sub_bytes(Isa::or_i(low, Isa::shl(high, 2)), Isa::set_i(0x04040404));
                        Fs::template put_signed<0, 8>(q, scale,
                                                      panel + (16 * sub_block + 4 * i) * kPanelRows);
                    }
                }
            }
        }
    }
};

/// The header that Q4_K and Q5_K share: their first 16 bytes to the scales and minima of the 8 sub-blocks.
template <class Isa>
TSR_INLINE void load_k_scales(const uint8_t* w, size_t stride, typename Isa::RowF scale[8],
                              typename Isa::RowF min[8]) {
    using Fs = Fields<Isa>;
    using RowI = typename Isa::RowI;
    RowI v[4];
    Isa::load_rows16(w, stride, v);
    const auto d = Isa::low_half(v[0]);
    const auto dmin = Isa::low_half(Isa::shr(v[0], 16));
    const RowI six = Isa::set_i(0x3f3f3f3f), top = Isa::set_i(0x30303030);
    const RowI scales[2] = {Isa::and_i(v[1], six),
                            Isa::or_i(Fs::low_nibbles(v[3]), Isa::and_i(Isa::shr(v[1], 2), top))};
    const RowI mins[2] = {Isa::and_i(v[2], six),
                          Isa::or_i(Fs::high_nibbles(v[3]), Isa::and_i(Isa::shr(v[2], 2), top))};
    TSR_UNROLL
    for (int j = 0; j < 8; j++) {
        scale[j] = Isa::mul_f(d, Isa::to_float(Fs::byte_of(scales, j)));
        min[j] = Isa::mul_f(dmin, Isa::to_float(Fs::byte_of(mins, j)));
    }
}

template <class Isa>
struct Unpack<Isa, kQ4_K> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        using Fs = Fields<Isa>;
        TSR_FOR_BLOCKS(BlockQ4_K, w, stride, n_k, panel) {
            typename Isa::RowF scale[8], min[8];
            load_k_scales<Isa>(w, stride, scale, min);
            for (int c = 0; c < 4; c++) {
                const auto low = Fs::template Unsigned<0, 4>::make(scale[2 * c], min[2 * c]);
                const auto high = Fs::template Unsigned<4, 4>::make(scale[2 * c + 1], min[2 * c + 1]);
                for (int half = 0; half < 2; half++) {
                    typename Isa::RowI v[4];
                    Isa::load_rows16(w + offsetof(BlockQ4_K, qs) + 32 * c + 16 * half, stride, v);
                    TSR_UNROLL
                    for (int i = 0; i < 4; i++) {
                        low.put(v[i], panel + (64 * c + 16 * half + 4 * i) * kPanelRows);
                        high.put(v[i], panel + (64 * c + 32 + 16 * half + 4 * i) * kPanelRows);
                    }
                }
            }
        }
    }
};

template <class Isa>
struct Unpack<Isa, kQ5_K> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        using Fs = Fields<Isa>;
        using RowI = typename Isa::RowI;
        const RowI fifth = Isa::set_i(0x10101010);
        TSR_FOR_BLOCKS(BlockQ5_K, w, stride, n_k, panel) {
            typename Isa::RowF scale[8], min[8];
            load_k_scales<Isa>(w, stride, scale, min);
            for (int half = 0; half < 2; half++) {
                RowI qh[4];
                Isa::load_rows16(w + offsetof(BlockQ5_K, qh) + 16 * half, stride, qh);
                for (int c = 0; c < 4; c++) {
                    const auto low = Fs::template Unsigned<0, 8>::make(scale[2 * c], min[2 * c]);
                    const auto high = Fs::template Unsigned<0, 8>::make(scale[2 * c + 1], min[2 * c + 1]);
                    RowI v[4];
                    Isa::load_rows16(w + offsetof(BlockQ5_K, qs) + 32 * c + 16 * half, stride, v);
                    TSR_UNROLL
                    for (int i = 0; i < 4; i++) {
                        const RowI bits =
                            Isa::shr(qh[i], 2 * c);  // bits 0 and 1 of a byte: low and high nibble
                        low.put(Isa::or_i(Fs::low_nibbles(v[i]), Isa::and_i(Isa::shl(bits, 4), fifth)),
                                panel + (64 * c + 16 * half + 4 * i) * kPanelRows);
                        high.put(Isa::or_i(Fs::high_nibbles(v[i]), Isa::and_i(Isa::shl(bits, 3), fifth)),
                                 panel + (64 * c + 32 + 16 * half + 4 * i) * kPanelRows);
                    }
                }
            }
        }
    }
};

template <class Isa>
struct Unpack<Isa, kQ6_K> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        using Fs = Fields<Isa>;
        using RowI = typename Isa::RowI;
        const RowI zero = Isa::set_i(0x20202020), top = Isa::set_i(0x30303030);
        TSR_FOR_BLOCKS(BlockQ6_K, w, stride, n_k, panel) {
            const auto d = Isa::load_rows_half(w + offsetof(BlockQ6_K, d), stride);
            RowI scales[4];
            Isa::load_rows16(w + offsetof(BlockQ6_K, scales), stride, scales);
            for (int part = 0; part < 4; part++) {  // 16 bytes of qh: four sub-blocks, 32 weights apart
                const int first = 8 * (part / 2) + part % 2;
                RowI a[4], b[4], qh[4];
                const uint8_t* ql = w + 64 * (part / 2) + 16 * (part % 2);
                Isa::load_rows16(ql, stride, a);
                Isa::load_rows16(ql + 32, stride, b);
                Isa::load_rows16(w + offsetof(BlockQ6_K, qh) + 16 * part, stride, qh);
                const auto put = [&](RowI nibbles, RowI bits, int sub_block, int i) {
                    const auto scale = Isa::mul_f(d, Isa::to_float(Fs::signed_byte_of(scales, sub_block)));
                    const RowI q = Isa::sub_bytes(Isa::or_i(nibbles, Isa::and_i(bits, top)), zero);
                    Fs::template put_signed<0, 8>(q, scale, panel + (16 * sub_block + 4 * i) * kPanelRows);
                };
                TSR_UNROLL
                for (int i = 0; i < 4; i++) {
                    put(Fs::low_nibbles(a[i]), Isa::shl(qh[i], 4), first, i);
                    put(Fs::low_nibbles(b[i]), Isa::shl(qh[i], 2), first + 2, i);
                    put(Fs::high_nibbles(a[i]), qh[i], first + 4, i);
                    put(Fs::high_nibbles(b[i]), Isa::shr(qh[i], 2), first + 6, i);
                }
            }
        }
    }
};

template <class Isa>
struct Unpack<Isa, kIQ4_XS> {
    static void run(const uint8_t* w, size_t stride, int64_t n_k, float* panel) {
        using RowI = typename Isa::RowI;
        TSR_FOR_BLOCKS(BlockIQ4_XS, w, stride, n_k, panel) {
            const RowI head = Isa::load_rows4(w, stride);  // d, scales_h
            const RowI scales_l = Isa::load_rows4(w + offsetof(BlockIQ4_XS, scales_l), stride);
            const auto d = Isa::low_half(head);
            for (int j = 0; j < 8; j++) {
                const RowI low = Isa::and_i(Isa::shr(scales_l, 4 * j), Isa::set_i(15));
                const RowI high = Isa::and_i(Isa::shr(head, 16 + 2 * j), Isa::set_i(3));
                const RowI s = Isa::sub_i(Isa::or_i(low, Isa::shl(high, 4)), Isa::set_i(32));
                put_table32<Isa>(w + offsetof(BlockIQ4_XS, qs) + 16 * j, stride, kIq4Values,
                                 Isa::mul_f(d, Isa::to_float(s)), panel + 32 * j * kPanelRows);
            }
        }
    }
};

#undef TSR_FOR_BLOCKS

}  // namespace
}  // namespace tessera::kernels
