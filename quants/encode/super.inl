// Encoders of superblocks: 256 weights in sub-blocks whose integer scales share one or two halves. The free
// steps of the sub-blocks are searched first (search.inl). Then halves and integers are fitted to each other
// alternately: each sub-block takes the integer next to its free step with the least error under the current
// halves; the halves become those of least error for the integers; and the best state found is stored.
#include "quants/encode/plain.inl"

namespace tessera::quants {
namespace {

constexpr int kSuper = 256;

/// One superblock: sub-blocks of n weights, sub-block j in lane j % 8 of group j / 8.
template <int n>
struct Super {
    static constexpr int kGroups = kSuper / (n * kLanes);
    static constexpr int kSubs = kSuper / n;
    Group<n> groups[kGroups];
    Norm norm;

    static void load(Super& super, const float* x, const float* importance) {
        super.norm = norm_of(x, importance, kSuper);
        for (int j = 0; j < kSubs; j++)
            load_lane(super.groups[j / kLanes], j % kLanes, x + n * j, importance + (importance ? n * j : 0),
                      super.norm);
    }
    /// The stored half nearest to a step, and the step that it stands for.
    uint16_t half(float step) const { return half_bits(step * norm.inverse); }
    float value(uint16_t half) const { return half_value(half) * norm.factor; }
};

/// The integer scales of the sub-blocks, and the half-precision factor of all of them.
template <int kGroups>
struct ScaleState {
    uint16_t d;
    Flt scales[kGroups];
};

template <class Format>
struct ScaledSuper {
    static constexpr int n = Format::kSub;
    using Levels = typename Format::Levels;
    using Data = Super<n>;
    static constexpr int kGroups = Data::kGroups;
    using State = ScaleState<kGroups>;

    /// The integer of each sub-block under half d. Returns the error; `refit` becomes the best step for them.
    static float choose(const Data& data, const Flt* free, State& state, float* refit) {
        const float d = data.value(state.d);
        Flt error = all(0), over = all(0), under = all(0);
        for (int k = 0; k < kGroups; k++) {
            const Flt middle = nearest_integer(
                min(max(quotient(free[k], all(d)), all(Format::kLeastScale)), all(Format::kMostScale)));
            Flt least = all(__builtin_inff()), level_level = all(0), level_rest = all(0);
            for (int delta = -Format::kSpread; delta <= Format::kSpread; delta++) {
                const Flt scale = min(max(middle + all(static_cast<float>(delta)), all(Format::kLeastScale)),
                                      all(Format::kMostScale));
                const ScaleSums s = sums_at<Levels>(data.groups[k], scale * all(d));
                const Int better = s.error < least;
                least = select(better, s.error, least);
                level_level = select(better, s.level_level, level_level);
                level_rest = select(better, s.level_rest, level_rest);
                state.scales[k] = select(better, scale, state.scales[k]);
            }
            error = error + least;
            over = over + state.scales[k] * level_rest;
            under = under + state.scales[k] * state.scales[k] * level_level;
        }
        const float denominator = sum_lanes(under);
        *refit = denominator > 0 ? d + sum_lanes(over) / denominator : d;
        return sum_lanes(error);
    }

    static State search(const Data& data) {
        Flt free[kGroups];
        float extreme = 0;
        for (int k = 0; k < kGroups; k++) {
            free[k] = best_steps<Levels>(data.groups[k], Format::kScan, Format::kRefine);
            const float here = extreme_lane(free[k]);
            if (__builtin_fabsf(here) > __builtin_fabsf(extreme)) extreme = here;
        }
        State best = {};
        float least = __builtin_inff();
        for (const float reach : Format::kReaches) {
            State state = {};
            float d = extreme / (reach * static_cast<float>(Format::kLeastScale));
            for (int round = 0; round < Format::kRounds; round++) {
                state.d = data.half(d);
                const float error = choose(data, free, state, &d);
                if (error < least) {
                    least = error;
                    best = state;
                }
            }
        }
        return best;
    }

    template <class Block>
    static void encode(const float* x, const float* importance, Block& b) {
        Data data;
        Data::load(data, x, importance);
        const State state = search(data);
        uint8_t codes[kSuper];
        int32_t scales[Data::kSubs];
        for (int k = 0; k < kGroups; k++) {
            put_codes<Levels>(data.groups[k], state.scales[k] * all(data.value(state.d)), all(0),
                              codes + n * kLanes * k);
            store(scales + kLanes * k, to_int(state.scales[k]));
        }
        Format::put(codes, scales, b);
        store_u16(data.norm.finite ? state.d : kHalfNan, b.d);
    }
};

// ---- x = d * scale * code - dmin * min

template <class Format>
struct LinedSuper {
    static constexpr int n = Format::kSub;
    static constexpr int kTop = Format::kTop;
    using Data = Super<n>;
    static constexpr int kGroups = Data::kGroups;

    struct State {
        uint16_t d, dmin;
        Flt scales[kGroups], mins[kGroups];
    };
    /// Sums over the superblock for the least squares of d and dmin: r = x - d scale code + dmin min.
    struct Normal {
        Flt ss, sm, mm, sr, mr;
        Flt error;
    };

    static Flt bounded(const Flt& v) {
        return nearest_integer(min(max(v, all(0)), all(static_cast<float>(Format::kMostScale))));
    }

    /// Scale and minimum of each sub-block under the halves. `free`: its free line.
    static Normal choose(const Data& data, const Line* free, const Flt* totals, State& state) {
        const Flt d = all(data.value(state.d)), dmin = all(data.value(state.dmin));
        Normal normal = {all(0), all(0), all(0), all(0), all(0), all(0)};
        for (int k = 0; k < kGroups; k++) {
            const Group<n>& g = data.groups[k];
            const Flt middle = bounded(quotient(free[k].step, d));
            const Flt free_min = all(0) - quotient(free[k].offset, dmin);
            Flt least = all(__builtin_inff());
            LineSums kept = {};
            for (int delta = -Format::kSpread; delta <= Format::kSpread; delta++) {
                const Flt scale = bounded(middle + all(static_cast<float>(delta)));
                const Flt step = scale * d;
                // The minimum that suits this step: from the codes under the free one.
                Flt minimum = bounded(free_min);
                for (int turn = 0; turn < 2; turn++) {
                    const LineSums s = sums_at<kTop>(g, {step, all(0) - minimum * dmin});
                    const Int better = s.error < least;
                    least = select(better, s.error, least);
                    kept.code = select(better, s.code, kept.code);
                    kept.code_code = select(better, s.code_code, kept.code_code);
                    kept.rest = select(better, s.rest, kept.rest);
                    kept.code_rest = select(better, s.code_rest, kept.code_rest);
                    state.scales[k] = select(better, scale, state.scales[k]);
                    state.mins[k] = select(better, minimum, state.mins[k]);
                    minimum = bounded(minimum - quotient(s.rest, totals[k] * dmin));
                }
            }
            const Flt &scale = state.scales[k], &minimum = state.mins[k];
            normal.ss = normal.ss + scale * scale * kept.code_code;
            normal.sm = normal.sm + scale * minimum * kept.code;
            normal.mm = normal.mm + minimum * minimum * totals[k];
            normal.sr = normal.sr + scale * kept.code_rest;
            normal.mr = normal.mr + minimum * kept.rest;
            normal.error = normal.error + least;
        }
        return normal;
    }

    /// The best d and dmin for the current integers.
    static void refit(const Normal& normal, float* d, float* dmin) {
        const float ss = sum_lanes(normal.ss), sm = sum_lanes(normal.sm), mm = sum_lanes(normal.mm);
        const float sr = sum_lanes(normal.sr), mr = sum_lanes(normal.mr);
        const float determinant = ss * mm - sm * sm;
        if (determinant > 1e-6f * ss * mm) {
            *d += (sr * mm - mr * sm) / determinant;
            *dmin += (sr * sm - mr * ss) / determinant;
        } else if (ss > 0) {
            *d += sr / ss;
        }
    }

    static State search(const Data& data) {
        Line free[kGroups];
        Flt totals[kGroups];
        float step = 0, offset = 0;
        for (int k = 0; k < kGroups; k++) {
            free[k] = best_lines<kTop>(data.groups[k], Format::kScan, Format::kRefine, true);
            totals[k] = total_weight(data.groups[k]);
            const float here = extreme_lane(free[k].step), low = extreme_lane(free[k].offset);
            step = here > step ? here : step;
            offset = -low > offset ? -low : offset;
        }
        State best = {};
        float least = __builtin_inff();
        for (const float reach : Format::kReaches) {
            State state = {};
            float d = step / (reach * Format::kMostScale), dmin = offset / (reach * Format::kMostScale);
            for (int round = 0; round < Format::kRounds; round++) {
                state.d = data.half(d);
                state.dmin = data.half(dmin);
                const Normal normal = choose(data, free, totals, state);
                const float error = sum_lanes(normal.error);
                if (error < least) {
                    least = error;
                    best = state;
                }
                d = data.value(state.d);
                dmin = data.value(state.dmin);
                refit(normal, &d, &dmin);
            }
        }
        return best;
    }

    template <class Block>
    static void encode(const float* x, const float* importance, Block& b) {
        Data data;
        Data::load(data, x, importance);
        const State state = search(data);
        uint8_t codes[kSuper];
        int32_t scales[Data::kSubs], mins[Data::kSubs];
        for (int k = 0; k < kGroups; k++) {
            put_codes<Uniform<0, kTop>>(data.groups[k], state.scales[k] * all(data.value(state.d)),
                                        all(0) - state.mins[k] * all(data.value(state.dmin)),
                                        codes + n * kLanes * k);
            store(scales + kLanes * k, to_int(state.scales[k]));
            store(mins + kLanes * k, to_int(state.mins[k]));
        }
        Format::put(codes, scales, mins, b);
        store_u16(data.norm.finite ? state.d : kHalfNan, b.d);
        store_u16(data.norm.finite ? state.dmin : kHalfNan, b.dmin);
    }
};

// ---- the formats

/// Bits `shift` .. of the codes into planes of 1, 2 or 4 bits (quants/blocks.h).
template <int bits>
TSR_INLINE void put_plane(const uint8_t* codes, int shift, uint8_t* plane) {
    constexpr int kPerByte = 8 / bits, kRun = 32 * kPerByte;
    for (int i = 0; i < kSuper / kPerByte; i++) {
        const uint8_t* c = codes + kRun * (i / 32) + i % 32;
        int byte = 0;
        TSR_UNROLL
        for (int k = 0; k < kPerByte; k++) byte |= ((c[32 * k] >> shift) & ((1 << bits) - 1)) << (bits * k);
        plane[i] = static_cast<uint8_t>(byte);
    }
}

/// The 12 bytes of 6-bit scales and minima that Q4_K and Q5_K share.
TSR_INLINE void put_k_scales(const int32_t* scales, const int32_t* mins, uint8_t* out) {
    for (int j = 0; j < 4; j++) {
        out[j] = static_cast<uint8_t>(scales[j] | (scales[j + 4] >> 4) << 6);
        out[j + 4] = static_cast<uint8_t>(mins[j] | (mins[j + 4] >> 4) << 6);
        out[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
    }
}

struct FormatQ2_K {
    static constexpr int kSub = 16, kTop = 3, kMostScale = 15, kSpread = 2, kRefine = 2, kRounds = 3;
    static constexpr LineScan kScan = {1.1f, -0.1f, 7, 0.03f, 3};
    static constexpr float kReaches[] = {1.0f, 0.9f};
    TSR_INLINE void put(const uint8_t* codes, const int32_t* scales, const int32_t* mins, BlockQ2_K& b) {
        put_plane<2>(codes, 0, b.qs);
        for (int j = 0; j < 16; j++) b.scales[j] = static_cast<uint8_t>(scales[j] | mins[j] << 4);
    }
};

struct FormatQ4_K {
    static constexpr int kSub = 32, kTop = 15, kMostScale = 63, kSpread = 1, kRefine = 2, kRounds = 3;
    static constexpr LineScan kScan = {0.93f, -0.07f, 3, 0.012f, 4};
    static constexpr float kReaches[] = {1.0f};
    TSR_INLINE void put(const uint8_t* codes, const int32_t* scales, const int32_t* mins, BlockQ4_K& b) {
        put_plane<4>(codes, 0, b.qs);
        put_k_scales(scales, mins, b.scales);
    }
};

struct FormatQ5_K {
    static constexpr int kSub = 32, kTop = 31, kMostScale = 63, kSpread = 1, kRefine = 2, kRounds = 3;
    static constexpr LineScan kScan = {0.96f, -0.04f, 3, 0.007f, 4};
    static constexpr float kReaches[] = {1.0f};
    TSR_INLINE void put(const uint8_t* codes, const int32_t* scales, const int32_t* mins, BlockQ5_K& b) {
        put_plane<4>(codes, 0, b.qs);
        put_plane<1>(codes, 4, b.qh);
        put_k_scales(scales, mins, b.scales);
    }
};

struct FormatQ3_K {
    using Levels = Uniform<-4, 3>;
    static constexpr int kSub = 16, kLeastScale = -32, kMostScale = 31, kSpread = 1, kRefine = 2, kRounds = 3;
    static constexpr Scan kScan = {0.60f, 1.08f, 14};
    static constexpr float kReaches[] = {1.0f, -1.0f};
    TSR_INLINE void put(const uint8_t* codes, const int32_t* scales, BlockQ3_K& b) {
        put_plane<2>(codes, 0, b.qs);
        put_plane<1>(codes, 2, b.hmask);
        for (uint8_t& byte : b.scales) byte = 0;
        for (int j = 0; j < 16; j++) {
            const int scale = scales[j] + 32;
            b.scales[j % 8] = static_cast<uint8_t>(b.scales[j % 8] | (scale & 15) << (4 * (j / 8)));
            b.scales[8 + j % 4] = static_cast<uint8_t>(b.scales[8 + j % 4] | (scale >> 4) << (2 * (j / 4)));
        }
    }
};

struct FormatQ6_K {
    using Levels = Uniform<-32, 31>;
    static constexpr int kSub = 16, kLeastScale = -128, kMostScale = 127, kSpread = 1, kRefine = 1,
                         kRounds = 2;
    static constexpr Scan kScan = {0.92f, 1.0125f, 14};
    static constexpr float kReaches[] = {1.0f};
    TSR_INLINE void put(const uint8_t* codes, const int32_t* scales, BlockQ6_K& b) {
        for (int i = 0; i < 128; i++) {
            const uint8_t* c = codes + 128 * (i / 64) + i % 64;
            b.ql[i] = static_cast<uint8_t>((c[0] & 15) | (c[64] & 15) << 4);
        }
        put_plane<2>(codes, 4, b.qh);
        for (int j = 0; j < 16; j++) b.scales[j] = static_cast<int8_t>(scales[j]);
    }
};

struct FormatIQ4_XS {
    using Levels = Iq4Levels;
    static constexpr int kSub = 32, kLeastScale = -32, kMostScale = 31, kSpread = 1, kRefine = 2, kRounds = 2;
    static constexpr Scan kScan = {0.70f, 1.055f, 16};
    static constexpr float kReaches[] = {1.0f, -1.0f};
    TSR_INLINE void put(const uint8_t* codes, const int32_t* scales, BlockIQ4_XS& b) {
        uint32_t high = 0;
        for (uint8_t& byte : b.scales_l) byte = 0;
        for (int j = 0; j < 8; j++) {
            put_split(codes + 32 * j, b.qs + 16 * j);
            const uint32_t scale = static_cast<uint32_t>(scales[j] + 32);
            b.scales_l[j / 2] = static_cast<uint8_t>(b.scales_l[j / 2] | (scale & 15) << (4 * (j % 2)));
            high |= (scale >> 4) << (2 * j);
        }
        store_u16(high, b.scales_h);
    }
};

}  // namespace
}  // namespace tessera::quants
