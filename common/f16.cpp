// The narrowing conversion, which is too long for the header. It rounds in integers, except that subnormal
// halves use the rounding of a float addition; it assumes the default rounding mode.
#include "common/f16.h"

namespace tessera {

uint16_t f32_to_f16(float f) {
    const uint32_t bits = std::bit_cast<uint32_t>(f);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    // 65520 lies half way between the largest half and 2^16, and the tie goes to the even 2^16: infinity.
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        // Below 2^-14 the steps are 2^-24, which is one unit in the last place of a float in [0.5, 1).
        const uint32_t steps = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
        return static_cast<uint16_t>(sign | steps);
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

}  // namespace tessera
