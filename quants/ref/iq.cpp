// Decoders of the codebook types IQ1, IQ2 and IQ3: groups of weights looked up whole, with signs and small
// scales. Bit layouts: quants/blocks.h. Codebooks: codebooks.h. All products are exact.
//
// IQ2 and IQ3 differ only in where the fields lie; each decoder below names, for one group of 8 weights g of
// 32, its scale, its sign bits and its codebook words.
#include <cstddef>

#include "quants/ref/codebooks.h"
#include "quants/ref/decode.h"

namespace tessera::quants {

namespace {

constexpr int kGroups = 32;  // groups of 8 in 256 weights

/// x[i] = scale * word[i], negative where bit i of signs is set.
template <size_t n>
void put_word(float scale, const std::array<int8_t, n>& word, uint32_t signs, float* x) {
    for (size_t i = 0; i < n; i++) {
        const float value = scale * static_cast<float>(word[i]);
        x[i] = (signs >> i) & 1 ? -value : value;
    }
}

/// The scale of the IQ2 types and of IQ3_XXS: d times (4-bit scale + 1/2) times a power of two.
float half_step_scale(const uint8_t* d, int scale, float factor) {
    return f16_field(d) * (static_cast<float>(scale) + 0.5f) * factor;
}

/// IQ1: x[i] = d * (2 * scale + 1) * (word[i] + shift)
void put_iq1(float d, uint32_t scale, uint32_t index, bool negative_shift, float* x) {
    const float step = d * static_cast<float>(2 * scale + 1);
    const float shift = negative_shift ? -0.125f : 0.125f;
    for (int i = 0; i < 8; i++) x[i] = step * (static_cast<float>(kGridIq1[index][i]) + shift);
}

}  // namespace

void decode(const BlockIQ2_XXS& b, float* x) {
    for (int g = 0; g < kGroups; g++) {
        const uint8_t* sub_block = b.qs + 8 * (g / 4);
        const uint32_t signs_scale = load_u32(sub_block + 4);
        const float scale = half_step_scale(b.d, static_cast<int>(signs_scale >> 28), 0.25f);
        put_word(scale, kGridIq2Xxs[sub_block[g % 4]], even_signs(signs_scale >> (7 * (g % 4))), x + 8 * g);
    }
}

void decode(const BlockIQ2_XS& b, float* x) {
    for (int g = 0; g < kGroups; g++) {
        const uint32_t q = load_u16(b.qs + 2 * g);
        const float scale = half_step_scale(b.d, nibble(b.scales, g / 2), 0.25f);
        put_word(scale, kGridIq2Xs[q & 511], even_signs(q >> 9), x + 8 * g);
    }
}

void decode(const BlockIQ2_S& b, float* x) {
    for (int g = 0; g < kGroups; g++) {
        const int index = b.qs[g] | ((b.qh[g / 4] >> (2 * (g % 4))) & 3) << 8;
        const float scale = half_step_scale(b.d, nibble(b.scales, g / 2), 0.25f);
        put_word(scale, kGridIq2S[index], b.signs[g], x + 8 * g);
    }
}

void decode(const BlockIQ3_XXS& b, float* x) {
    for (int g = 0; g < kGroups; g++) {
        const uint32_t signs_scale = load_u32(b.signs_scale + 4 * (g / 4));
        const float scale = half_step_scale(b.d, static_cast<int>(signs_scale >> 28), 0.5f);
        const uint32_t signs = even_signs(signs_scale >> (7 * (g % 4)));
        put_word(scale, kGridIq3Xxs[b.qs[2 * g]], signs, x + 8 * g);
        put_word(scale, kGridIq3Xxs[b.qs[2 * g + 1]], signs >> 4, x + 8 * g + 4);
    }
}

void decode(const BlockIQ3_S& b, float* x) {
    const float d = f16_field(b.d);
    for (int g = 0; g < kGroups; g++) {
        const float scale = d * static_cast<float>(1 + 2 * nibble(b.scales, g / 4));
        for (int half = 0; half < 2; half++) {
            const int word = 2 * g + half;
            const int index = b.qs[word] | bit(b.qh, word) << 8;
            put_word(scale, kGridIq3S[index], b.signs[g] >> (4 * half), x + 4 * word);
        }
    }
}

void decode(const BlockIQ1_S& b, float* x) {
    const float d = f16_field(b.d);
    for (int g = 0; g < kGroups; g++) {
        const uint32_t high = load_u16(b.qh + 2 * (g / 4));
        const uint32_t index = b.qs[g] | ((high >> (3 * (g % 4))) & 7) << 8;
        put_iq1(d, (high >> 12) & 7, index, high >> 15, x + 8 * g);
    }
}

void decode(const BlockIQ1_M& b, float* x) {
    uint32_t half = 0;  // d, a nibble in the top of each of the four words of scales
    for (int k = 0; k < 4; k++) half |= (load_u16(b.scales + 2 * k) >> 12) << (4 * k);
    const float d = f16_to_f32(static_cast<uint16_t>(half));
    for (int g = 0; g < kGroups; g++) {
        const int j = g / 2;  // sub-block of 16
        const uint32_t scale = (load_u16(b.scales + 2 * (j / 4)) >> (3 * (j % 4))) & 7;
        const uint32_t high = static_cast<uint32_t>(nibble(b.qh, g));
        put_iq1(d, scale, b.qs[g] | (high & 7) << 8, high >> 3, x + 8 * g);
    }
}

}  // namespace tessera::quants
