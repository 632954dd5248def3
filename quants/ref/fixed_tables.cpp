// Decoders of the 4-bit types whose codes stand for 16 fixed values: IQ4_NL, IQ4_XS and MXFP4.
// Bit layouts and tables: quants/blocks.h. All products are exact.
#include "quants/ref/decode.h"

namespace tessera::quants {

void decode(const BlockIQ4_NL& b, float* x) {
    const float d = f16_field(b.d);
    for (int e = 0; e < b.kWeights; e++) x[e] = d * static_cast<float>(kIq4Values[code_at(b, e)]);
}

void decode(const BlockIQ4_XS& b, float* x) {
    const float d = f16_field(b.d);
    for (int e = 0; e < b.kWeights; e++) {
        const float scale = d * static_cast<float>(scale_at(b, e / 32));
        x[e] = scale * static_cast<float>(kIq4Values[code_at(b, e)]);
    }
}

void decode(const BlockMXFP4& b, float* x) {
    const float scale = e8m0_half_to_f32(b.e);
    for (int e = 0; e < b.kWeights; e++) x[e] = scale * static_cast<float>(kMxfp4Values[code_at(b, e)]);
}

}  // namespace tessera::quants
