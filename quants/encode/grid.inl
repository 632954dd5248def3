// Encoders of the codebook types IQ2 and IQ3: groups of 8 weights that are looked up whole, eight groups side
// by side, one a lane. A word's error is the sum of the costs of its two halves, so all words of a codebook
// are compared with one addition each: the search is exact. Scales are searched as for other superblocks
// (super.inl), from a start that gives every weight its nearest level.
#include "quants/encode/halves.h"
#include "quants/encode/super.inl"

namespace tessera::quants {
namespace {

constexpr int kGroupWeights = 8, kGroupSets = kSuper / (kGroupWeights * kLanes);
constexpr int kGroupsOfSuper = kSuper / kGroupWeights;

/// The code of a lane's group.
struct GroupCode {
    int32_t word[2];  ///< one of 8 weights or two of 4
    int32_t flipped;  ///< the weight stored with the wrong sign, or -1
    uint32_t signs;   ///< as stored
};

/// The search for one set of eight groups under their steps.
template <class Book>
struct WordSearch {
    static constexpr int kLevelCount = Book::kLevelCount, kHalfWeights = Book::kHalfWeights;
    static constexpr int kEntries =
        kHalfWeights == 4 ? kLevelCount * kLevelCount * kLevelCount * kLevelCount : kLevelCount * kLevelCount;
    static constexpr int kWordWeights = 2 * kHalfWeights, kWordsOfGroup = kGroupWeights / kWordWeights;

    Flt error;
    Int word[kWordsOfGroup];
    Int flipped;  ///< the weight with the wrong sign, or -1

    /// sum w (size - step * level)^2 of one weight at each level.
    TSR_INLINE void costs_of(const Flt& size, const Flt& w, const Flt& step, Flt* costs) {
        TSR_UNROLL
        for (int k = 0; k < kLevelCount; k++) {
            const Flt rest = size - step * all(Book::level(k));
            costs[k] = w * rest * rest;
        }
    }

    /// The costs of each combination of levels of a half's weights; costs [kHalfWeights][kLevelCount].
    TSR_INLINE void combine(const Flt* costs, Flt* half) {
        constexpr int kPairs = kLevelCount * kLevelCount;
        Flt pairs[kHalfWeights / 2][kPairs];
        for (int p = 0; p < kHalfWeights / 2; p++)
            for (int k = 0; k < kPairs; k++)
                pairs[p][k] = costs[2 * p * kLevelCount + k % kLevelCount] +
                              costs[(2 * p + 1) * kLevelCount + k / kLevelCount];
        if constexpr (kHalfWeights == 2) {
            for (int k = 0; k < kPairs; k++) half[k] = pairs[0][k];
        } else {
            for (int k = 0; k < kEntries; k++) half[k] = pairs[0][k % kPairs] + pairs[1][k / kPairs];
        }
    }

    /// Where the number of negative signs must be even and a lane's is odd: inverts the sign that costs
    /// least.
    TSR_INLINE void make_even(const Group<kGroupWeights>& sizes, const Int& odd, const Flt& step, Flt* costs,
                              Int& flipped) {
        Flt least = all(__builtin_inff());
        for (int e = 0; e < kGroupWeights; e++) {
            Flt own = costs[e * kLevelCount];
            TSR_UNROLL
            for (int k = 1; k < kLevelCount; k++) own = min(own, costs[e * kLevelCount + k]);
            const Flt turned = sizes.x[e] + step * all(Book::level(0));
            const Flt loss = sizes.w[e] * turned * turned - own;
            const Int better = loss < least;
            least = min(loss, least);
            flipped = select(better, all_int(e), flipped);
        }
        flipped = select(odd, flipped, all_int(-1));
        for (int e = 0; e < kGroupWeights; e++) {
            const Int here = flipped == all_int(e);
            Flt turned[kLevelCount];
            costs_of(all(0) - sizes.x[e], sizes.w[e], step, turned);
            TSR_UNROLL
            for (int k = 0; k < kLevelCount; k++)
                costs[e * kLevelCount + k] = select(here, turned[k], costs[e * kLevelCount + k]);
        }
    }

    /// `sizes`: magnitudes. `odd`: lanes whose number of negative signs the codebook cannot store.
    TSR_ONCE void run(const Group<kGroupWeights>& sizes, const Int& odd, const Flt& step, WordSearch& out) {
        Flt costs[kGroupWeights * kLevelCount];
        for (int e = 0; e < kGroupWeights; e++)
            costs_of(sizes.x[e], sizes.w[e], step, costs + e * kLevelCount);
        out.flipped = all_int(-1);
        if constexpr (Book::kEvenSigns) make_even(sizes, odd, step, costs, out.flipped);
        out.error = all(0);
        const WordHalves* halves = Book::halves();
        for (int i = 0; i < kWordsOfGroup; i++) {
            Flt low[kEntries], high[kEntries];
            const Flt* first = costs + i * kWordWeights * kLevelCount;
            combine(first, low);
            combine(first + kHalfWeights * kLevelCount, high);
            Flt least = all(__builtin_inff());
            Int best = all_int(0);
            // Words of one high half follow each other.
            for (int k = 0; k < Book::kWords;) {
                const uint8_t run = halves[k].high;
                Flt least_low = low[halves[k].low];
                Int best_low = all_int(k);
                for (k++; k < Book::kWords && halves[k].high == run; k++) {
                    const Flt& cost = low[halves[k].low];
                    best_low = select(cost < least_low, all_int(k), best_low);
                    least_low = min(cost, least_low);
                }
                const Flt cost = least_low + high[run];
                best = select(cost < least, best_low, best);
                least = min(cost, least);
            }
            out.word[i] = best;
            out.error = out.error + least;
        }
    }
};

template <class Book>
struct GridSuper {
    using Search = WordSearch<Book>;
    static constexpr int kSubGroups = Book::kSub / kGroupWeights, kSubs = kSuper / Book::kSub;
    static constexpr int kSetSubs = kLanes / kSubGroups;  // of one set
    static constexpr float kMostScale = 31;               // scales are odd

    struct Data {
        Group<kGroupWeights> sizes[kGroupSets];
        Int odd[kGroupSets];
        uint32_t signs[kGroupsOfSuper];
        Norm norm;
    };
    /// A step for each sub-block, and the resulting codes and errors.
    struct Fit {
        float step[kSubs], error[kSubs];
        GroupCode codes[kGroupsOfSuper];
    };

    static void load(Data& data, const float* x, const float* importance) {
        data.norm = norm_of(x, importance, kSuper);
        for (int set = 0; set < kGroupSets; set++) {
            int32_t odd[kLanes];
            for (int l = 0; l < kLanes; l++) {
                const int group = kLanes * set + l, at = kGroupWeights * group;
                load_lane(data.sizes[set], l, x + at, importance ? importance + at : nullptr, data.norm);
                uint32_t signs = 0;
                for (int e = 0; e < kGroupWeights; e++) signs |= static_cast<uint32_t>(x[at + e] < 0) << e;
                data.signs[group] = signs;
                odd[l] = __builtin_parity(signs) ? -1 : 0;
            }
            __builtin_memcpy(&data.odd[set], odd, sizeof odd);
            for (int e = 0; e < kGroupWeights; e++) data.sizes[set].x[e] = magnitude(data.sizes[set].x[e]);
        }
    }

    /// The steps of set `set`, one a lane.
    TSR_INLINE Flt lanes_of(const float* step, int set) {
        float lanes[kLanes];
        for (int l = 0; l < kLanes; l++) lanes[l] = step[(kLanes * set + l) / kSubGroups];
        return quants::load(lanes);
    }

    /// Lanes to sums of sub-blocks.
    TSR_INLINE void add_lanes(const Flt& lanes, int set, float* sums) {
        float values[kLanes];
        store(values, lanes);
        for (int l = 0; l < kLanes; l++) {
            float& sum = sums[(kLanes * set + l) / kSubGroups];
            sum = (l % kSubGroups ? sum : 0.0f) + values[l];
        }
    }

    /// Errors under the steps of `fit`, if every weight could have its nearest level.
    static void relax(const Data& data, Fit& fit) {
        for (int set = 0; set < kGroupSets; set++) {
            const Group<kGroupWeights>& sizes = data.sizes[set];
            const Flt step = lanes_of(fit.step, set);
            Flt error = all(0);
            for (int e = 0; e < kGroupWeights; e++) {
                Flt costs[Book::kLevelCount];
                Search::costs_of(sizes.x[e], sizes.w[e], step, costs);
                for (int k = 1; k < Book::kLevelCount; k++) costs[0] = min(costs[0], costs[k]);
                error = error + costs[0];
            }
            add_lanes(error, set, fit.error);
        }
    }

    /// Codes and errors under the steps of `fit`.
    static void look_up(const Data& data, Fit& fit) {
        for (int set = 0; set < kGroupSets; set++) {
            Search found;
            Search::run(data.sizes[set], data.odd[set], lanes_of(fit.step, set), found);
            add_lanes(found.error, set, fit.error);
            int32_t words[Search::kWordsOfGroup][kLanes], flipped[kLanes];
            for (int i = 0; i < Search::kWordsOfGroup; i++) store(words[i], found.word[i]);
            store(flipped, found.flipped);
            for (int l = 0; l < kLanes; l++) {
                GroupCode& code = fit.codes[kLanes * set + l];
                code.flipped = flipped[l];
                for (int i = 0; i < Search::kWordsOfGroup; i++) code.word[i] = words[i][l];
            }
        }
    }

    /// The sums of the best step for the codes of sub-block j: sum w level size and sum w level^2.
    static void sums_of(const Data& data, const Fit& fit, int j, float* level_size, float* level_level) {
        const WordHalves* halves = Book::halves();
        *level_size = *level_level = 0;
        for (int group = kSubGroups * j; group < kSubGroups * (j + 1); group++) {
            const Group<kGroupWeights>& sizes = data.sizes[group / kLanes];
            const GroupCode& code = fit.codes[group];
            for (int e = 0; e < kGroupWeights; e++) {
                const WordHalves& word = halves[code.word[e / Search::kWordWeights]];
                const float level = Book::level(digit(word, e % Search::kWordWeights));
                const float w = lane_of(sizes.w[e], group % kLanes),
                            size = lane_of(sizes.x[e], group % kLanes);
                *level_level += w * level * level;
                *level_size += w * level * (e == code.flipped ? -size : size);
            }
        }
    }

    TSR_INLINE int digit(const WordHalves& word, int e) {
        int number = e < Search::kHalfWeights ? word.low : word.high;
        for (int i = 0; i < e % Search::kHalfWeights; i++) number /= Book::kLevelCount;
        return number % Book::kLevelCount;
    }

    TSR_INLINE float lane_of(const Flt& v, int lane) { return reinterpret_cast<const float*>(&v)[lane]; }

    /// Takes sub-block j of `from`.
    TSR_INLINE void take(const Fit& from, int j, Fit& to) {
        to.step[j] = from.step[j];
        to.error[j] = from.error[j];
        for (int g = kSubGroups * j; g < kSubGroups * (j + 1); g++) to.codes[g] = from.codes[g];
    }

    /// The free step of each sub-block.
    static void search_steps(const Data& data, Fit& best) {
        float widest[kSubs] = {};
        for (int set = 0; set < kGroupSets; set++) {
            float lanes[kLanes];
            store(lanes, extremes(data.sizes[set]));
            for (int l = 0; l < kLanes; l++) {
                float& most = widest[(kLanes * set + l) / kSubGroups];
                most = l % kSubGroups && most > lanes[l] ? most : lanes[l];
            }
        }
        Fit trial = {};
        float start[kSubs] = {};
        for (int j = 0; j < kSubs; j++) best.error[j] = __builtin_inff();
        float reach = 0.7f;
        for (int k = 0; k < 14; k++, reach *= 1.09f) {
            for (int j = 0; j < kSubs; j++)
                trial.step[j] = widest[j] / (reach * Book::level(Book::kLevelCount - 1));
            relax(data, trial);
            for (int j = 0; j < kSubs; j++) {
                if (trial.error[j] >= best.error[j]) continue;
                best.error[j] = trial.error[j];
                start[j] = trial.step[j];
            }
        }
        for (int j = 0; j < kSubs; j++) best.error[j] = __builtin_inff();
        for (const float factor : Book::kFactors) {
            for (int j = 0; j < kSubs; j++) trial.step[j] = start[j] * factor;
            look_up(data, trial);
            for (int j = 0; j < kSubs; j++)
                if (trial.error[j] < best.error[j]) take(trial, j, best);
        }
        for (int j = 0; j < kSubs; j++) {
            float level_size, level_level;
            sums_of(data, best, j, &level_size, &level_level);
            if (level_size > 0) best.step[j] = level_size / level_level;
        }
    }

    /// Odd integers for the free steps under d.
    TSR_INLINE int scale_at(float step, float d) {
        const float ratio = d > 0 ? step / d : 0.0f;
        const float index = ratio < kMostScale ? (ratio - 1.0f) * 0.5f : 15.0f;
        return index > 0 ? static_cast<int>(index + 0.5f) : 0;
    }

    template <class Block>
    static void encode(const float* x, const float* importance, Block& b) {
        Data data;
        load(data, x, importance);
        Fit free = {}, best = {};
        search_steps(data, free);
        float most = 0;
        for (int j = 0; j < kSubs; j++) most = free.step[j] > most ? free.step[j] : most;
        float d = most / kMostScale, least = __builtin_inff();
        uint16_t best_half = 0;
        int best_scales[kSubs] = {};
        for (int round = 0; round < Book::kRounds; round++) {
            const uint16_t half = half_bits(d / Book::kUnit * data.norm.inverse);
            const float unit = half_value(half) * data.norm.factor * Book::kUnit;
            Fit chosen = {}, trial = {};
            int scales[kSubs] = {};
            for (int j = 0; j < kSubs; j++) chosen.error[j] = __builtin_inff();
            for (int delta = -1; delta <= 1; delta++) {
                int here[kSubs];
                for (int j = 0; j < kSubs; j++) {
                    const int scale = scale_at(free.step[j], unit) + delta;
                    here[j] = scale < 0 ? 0 : (scale > 15 ? 15 : scale);
                    trial.step[j] = unit * static_cast<float>(2 * here[j] + 1);
                }
                look_up(data, trial);
                for (int j = 0; j < kSubs; j++) {
                    if (trial.error[j] >= chosen.error[j]) continue;
                    take(trial, j, chosen);
                    scales[j] = here[j];
                }
            }
            float error = 0, over = 0, under = 0;
            for (int j = 0; j < kSubs; j++) {
                const float scale = static_cast<float>(2 * scales[j] + 1);
                error += chosen.error[j];
                float level_size, level_level;
                sums_of(data, chosen, j, &level_size, &level_level);
                over += scale * level_size;
                under += scale * scale * level_level;
            }
            if (error < least) {
                least = error;
                best = chosen;
                best_half = half;
                for (int j = 0; j < kSubs; j++) best_scales[j] = scales[j];
            }
            if (under > 0) d = over / under;
        }
        for (int g = 0; g < kGroupsOfSuper; g++) {
            GroupCode& code = best.codes[g];
            code.signs = data.signs[g] ^ (code.flipped < 0 ? 0u : 1u << code.flipped);
        }
        Book::put(best.codes, best_scales, b);
        store_u16(data.norm.finite ? best_half : kHalfNan, b.d);
    }
};

// ---- the codebooks and their blocks

struct LevelsIq2 {
    static constexpr int kLevelCount = 3, kHalfWeights = 4, kRounds = 2;
    static constexpr float kUnit = 0.125f;
    static constexpr float kFactors[] = {0.88f, 0.96f, 1.04f, 1.12f};
    TSR_INLINE float level(int k) { return k == 0 ? 8.0f : (k == 1 ? 25.0f : 43.0f); }
};

/// Four bits a scale.
TSR_INLINE void put_nibbles(const int* scales, int n, uint8_t* out) {
    for (int j = 0; j < n; j += 2) out[j / 2] = static_cast<uint8_t>(scales[j] | scales[j + 1] << 4);
}

/// The signs of four groups without their last bits, and a scale above.
TSR_INLINE void put_signs_scale(const GroupCode* codes, int scale, uint8_t* out) {
    uint32_t word = static_cast<uint32_t>(scale) << 28;
    for (int g = 0; g < 4; g++) word |= (codes[g].signs & 127) << (7 * g);
    store_u32(word, out);
}

struct FormatIQ2_XXS : LevelsIq2 {
    static constexpr int kWords = 256, kSub = 32;
    static constexpr bool kEvenSigns = true;
    TSR_INLINE const WordHalves* halves() { return halves_iq2_xxs(); }
    TSR_INLINE void put(const GroupCode* codes, const int* scales, BlockIQ2_XXS& b) {
        for (int j = 0; j < 8; j++) {
            for (int g = 0; g < 4; g++) b.qs[8 * j + g] = static_cast<uint8_t>(codes[4 * j + g].word[0]);
            put_signs_scale(codes + 4 * j, scales[j], b.qs + 8 * j + 4);
        }
    }
};

struct FormatIQ2_XS : LevelsIq2 {
    static constexpr int kWords = 512, kSub = 16;
    static constexpr bool kEvenSigns = true;
    TSR_INLINE const WordHalves* halves() { return halves_iq2_xs(); }
    TSR_INLINE void put(const GroupCode* codes, const int* scales, BlockIQ2_XS& b) {
        for (int g = 0; g < kGroupsOfSuper; g++)
            store_u16(static_cast<uint32_t>(codes[g].word[0]) | (codes[g].signs & 127) << 9, b.qs + 2 * g);
        put_nibbles(scales, 16, b.scales);
    }
};

struct FormatIQ2_S : LevelsIq2 {
    static constexpr int kWords = 1024, kSub = 16;
    static constexpr bool kEvenSigns = false;
    TSR_INLINE const WordHalves* halves() { return halves_iq2_s(); }
    TSR_INLINE void put(const GroupCode* codes, const int* scales, BlockIQ2_S& b) {
        for (uint8_t& byte : b.qh) byte = 0;
        for (int g = 0; g < kGroupsOfSuper; g++) {
            b.qs[g] = static_cast<uint8_t>(codes[g].word[0]);
            b.qh[g / 4] = static_cast<uint8_t>(b.qh[g / 4] | (codes[g].word[0] >> 8) << (2 * (g % 4)));
            b.signs[g] = static_cast<uint8_t>(codes[g].signs);
        }
        put_nibbles(scales, 16, b.scales);
    }
};

struct FormatIQ3_XXS {
    static constexpr int kLevelCount = 8, kHalfWeights = 2, kRounds = 2, kWords = 256, kSub = 32;
    static constexpr float kUnit = 0.25f;
    static constexpr bool kEvenSigns = true;
    static constexpr float kFactors[] = {0.92f, 0.97f, 1.02f, 1.07f};
    TSR_INLINE float level(int k) { return k == 7 ? 62.0f : static_cast<float>(8 * k + 4); }
    TSR_INLINE const WordHalves* halves() { return halves_iq3_xxs(); }
    TSR_INLINE void put(const GroupCode* codes, const int* scales, BlockIQ3_XXS& b) {
        for (int g = 0; g < 2 * kGroupsOfSuper; g++) b.qs[g] = static_cast<uint8_t>(codes[g / 2].word[g % 2]);
        for (int j = 0; j < 8; j++) put_signs_scale(codes + 4 * j, scales[j], b.signs_scale + 4 * j);
    }
};

struct FormatIQ3_S {
    static constexpr int kLevelCount = 8, kHalfWeights = 2, kRounds = 2, kWords = 512, kSub = 32;
    static constexpr float kUnit = 1.0f;
    static constexpr bool kEvenSigns = false;
    static constexpr float kFactors[] = {0.92f, 0.97f, 1.02f, 1.07f};
    TSR_INLINE float level(int k) { return static_cast<float>(2 * k + 1); }
    TSR_INLINE const WordHalves* halves() { return halves_iq3_s(); }
    TSR_INLINE void put(const GroupCode* codes, const int* scales, BlockIQ3_S& b) {
        for (uint8_t& byte : b.qh) byte = 0;
        for (int g = 0; g < 2 * kGroupsOfSuper; g++) {
            const int word = codes[g / 2].word[g % 2];
            b.qs[g] = static_cast<uint8_t>(word);
            b.qh[g / 8] = static_cast<uint8_t>(b.qh[g / 8] | (word >> 8) << (g % 8));
        }
        for (int g = 0; g < kGroupsOfSuper; g++) b.signs[g] = static_cast<uint8_t>(codes[g].signs);
        put_nibbles(scales, 8, b.scales);
    }
};

}  // namespace
}  // namespace tessera::quants
