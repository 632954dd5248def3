// The only conversion of real factors to integer ones, with the proof that products cannot overflow.
#include "src/npu/requant.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::npu {

namespace {

bool fits(const Multiplier& m, int64_t bound) {
    const int64_t room = std::numeric_limits<int64_t>::max() - (int64_t{1} << (m.shift - 1));
    return m.mult == 0 || bound <= room / m.mult;
}

}  // namespace

Result<Multiplier> make_multiplier(double real, int64_t bound, int n_bits) {
    if (!(real >= 0 && real < 0x1p30))
        return fail(ErrorCode::InvalidArgument,
                    "factor between two encodings: expected a number from 0 to 2^30, found %g", real);
    if (real == 0) return Multiplier{};
    int exponent = 0;
    const double fraction = std::frexp(real, &exponent);
    // Small factors keep only the bits that a shift of 62 leaves; large factors are integers.
    for (int lost = std::max(0, n_bits - exponent - 62); lost <= n_bits; ++lost) {
        int64_t mult = std::llrint(std::ldexp(fraction, n_bits - lost));
        int shift = n_bits - lost - exponent;
        for (; shift < 1; ++shift) mult *= 2;
        if (mult > std::numeric_limits<int32_t>::max()) break;
        const Multiplier m{static_cast<int32_t>(mult), static_cast<int8_t>(shift), static_cast<int8_t>(lost)};
        if (fits(m, bound)) return m;
    }
    if (exponent < -62) return Multiplier{};  // below 2^-62
    return fail(ErrorCode::Unsupported,
                "factor %g between two encodings: its product with sums up to %lld exceeds 64 bits", real,
                static_cast<long long>(bound));
}

Result<Multiplier> make_output_multiplier(OutputMode mode, double real, int64_t bound, int bits_in) {
    if (mode == OutputMode::Exact) return make_multiplier(real, bound);
    // Each of the two truncations loses less than one unit.
    TSR_TRY(const Multiplier m, bits_in == 16 ? make_multiplier(256 * real, bound / 256 + 2, 12)
                                              : make_multiplier(real, bound, 12));
    if (m.mult > std::numeric_limits<uint16_t>::max())
        return fail(ErrorCode::Unsupported, "factor %g between two encodings: it exceeds 16 bits", real);
    return m;
}

}  // namespace tessera::npu
