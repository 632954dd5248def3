// The tile loops in plain C, which all other tables match bit for bit. See src/npu/layout.h for the layout.
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

namespace {

constexpr int64_t kChannels = 32;

void multiply(const MultiplyArgs& a) {
    for (int64_t tile = 0; tile < a.k_tiles; ++tile) {
        const int8_t* w = a.w + tile * kChannels * kChannels;
        for (int64_t row = 0; row < a.rows; ++row) {
            const int64_t at = tile * a.act_stride + row * kChannels;
            int32_t x[kChannels];
            for (int64_t k = 0; k < kChannels; ++k)
                x[k] = a.low ? (a.high[at + k] << 8 | a.low[at + k]) - 32768 : a.high[at + k];
            int64_t* sums = a.sums + row * kChannels;
            // 32 products of 16 by 8 bits are far below 2^31.
            for (int64_t n = 0; n < kChannels; ++n) {
                int32_t sum = 0;
                for (int64_t k = 0; k < kChannels; ++k) sum += x[k] * w[128 * (k >> 2) + 4 * n + (k & 3)];
                sums[n] += sum;
            }
        }
    }
}

int signed_nibble(int nibble) { return (nibble ^ 8) - 8; }

void expand(const uint8_t* packed, const int8_t* mult, int64_t k_tiles, int64_t block, int8_t* w) {
    for (int64_t quad = 0; quad < 8 * k_tiles; ++quad, packed += 64, w += 128) {
        const int8_t* m = mult + 4 * quad / block * kChannels;
        for (int64_t i = 0; i < 64; ++i) {
            w[i] = static_cast<int8_t>(signed_nibble(packed[i] & 15) * m[i >> 2]);
            w[64 + i] = static_cast<int8_t>(signed_nibble(packed[i] >> 4) * m[16 + (i >> 2)]);
        }
    }
}

void interleave(const uint8_t* bytes, int64_t stride, int64_t n_quads, int8_t* w, int32_t* sums) {
    for (int64_t k = 0; k < 4 * n_quads; ++k)
        for (int64_t n = 0; n < kChannels; ++n) {
            const int weight = bytes[k * stride + n] - 128;
            w[128 * (k >> 2) + 4 * n + (k & 3)] = static_cast<int8_t>(weight);
            sums[n] += weight;
        }
}

}  // namespace

constinit const TileKernels kTilesScalar = {"scalar", multiply, expand, interleave, nullptr};

}  // namespace tessera::npu
