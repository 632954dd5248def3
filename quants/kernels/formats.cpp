// The one step from the ISA units, which include no std headers, to the registry's reference decoders.
// Assumes a weight type: the kernel tables hold entries for no others. The decoders are in quants/ref.
#include "quants/kernels/formats.h"

#include "quants/types.h"

namespace tessera::kernels {

void dequantize_reference(uint32_t type_id, const void* src, float* dst, int64_t n) {
    type_info(static_cast<Type>(type_id)).dequantize(src, dst, n);
}

}  // namespace tessera::kernels
