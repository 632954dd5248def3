// Scalar reference definitions of attention scores, probabilities and weighted values.
#include "src/npu/attention.h"

#include <algorithm>
#include <cmath>

#include "common/exact_math.h"

namespace tessera::npu {

Result<DynamicProduct> DynamicProduct::create(const Encoding& x, const Encoding& kv, const Encoding& y,
                                              double factor, int64_t n_k, OutputMode mode) {
    if (kv.bits != 8 || kv.zero != 128)
        return fail(ErrorCode::InvalidArgument,
                    "keys and values: expected 8 bits with zero 128, found %d bits with zero %d", kv.bits,
                    kv.zero);
    if (n_k < 1 || n_k > 65536)
        return fail(ErrorCode::Unsupported, "attention: expected sums of 1 to 65536 products, found %lld",
                    static_cast<long long>(n_k));
    DynamicProduct op;
    op.x_ = x;
    op.kv_ = kv;
    op.y_ = y;
    op.mode_ = mode;
    const double scales = static_cast<double>(x.scale) * static_cast<double>(kv.scale);
    TSR_TRY(op.factor_, make_output_multiplier(mode, scales * factor / static_cast<double>(y.scale),
                                               n_k * 128 * x.max(), x.bits));
    return op;
}

uint16_t DynamicProduct::apply(const uint16_t* x, const uint8_t* w, int64_t w_stride, int64_t n_k) const {
    const bool by_byte = mode_ == OutputMode::Hmx && x_.bits == 16;
    int64_t sum = 0, low = 0, of_weights = 0;
    for (int64_t k = 0; k < n_k; ++k) {
        const int32_t weight = w[k * w_stride] - kv_.zero;
        sum += int64_t{by_byte ? x[k] >> 8 : x[k] - x_.zero} * weight;
        low += by_byte ? (x[k] & 255) * weight : 0;
        of_weights += weight;
    }
    if (by_byte) sum = hmx_sum(sum, low, -x_.zero * of_weights);
    return static_cast<uint16_t>(y_.clamp(y_.zero + factor_.apply(sum)));
}

MaskedSoftmax::MaskedSoftmax(const Encoding& scores) {
    const double scale = static_cast<double>(scores.scale);
    const auto exp31 = [&](int steps) {
        const double x = std::min(steps * scale, 600.0);
        return static_cast<uint32_t>(std::llrint(exact_exp(-x) * 0x1p31));
    };
    for (int i = 0; i < 256; ++i) {
        tables_.high[static_cast<size_t>(i)] = exp31(256 * i);
        tables_.low[static_cast<size_t>(i)] = exp31(i);
    }
}

void softmax_row(const ExpTables& tables, const uint16_t* x, int64_t n, int64_t first, int64_t last,
                 uint16_t* p) {
    first = std::max<int64_t>(first, 0);
    last = std::min(last, n);
    if (first >= last) {
        std::fill(p, p + n, uint16_t{0});
        return;
    }
    const int32_t largest = *std::max_element(x + first, x + last);
    const auto exp_of = [&](uint16_t score) {
        const int32_t below = largest - score;
        return uint64_t{tables.high[static_cast<size_t>(below >> 8)]} *
                   tables.low[static_cast<size_t>(below & 255)] >>
               31;
    };
    uint64_t sum = 0;
    for (int64_t i = first; i < last; ++i) sum += exp_of(x[i]);
    // The largest score contributes at least 1, unless the tables are all zero.
    sum = std::max<uint64_t>(sum, 1);
    for (int64_t i = first; i < last; ++i)
        p[i] = static_cast<uint16_t>((exp_of(x[i]) * 65535 + sum / 2) / sum);
    std::fill(p, p + first, uint16_t{0});
    std::fill(p + last, p + n, uint16_t{0});
}

}  // namespace tessera::npu
