#pragma once
// The list of tensor types for ISA units: ids and block sizes without the registry's std headers, and calls
// to the reference decoders. Included by ISA units: only C headers here, and nothing inline.
#include <stddef.h>
#include <stdint.h>

namespace tessera::kernels {

enum TypeId : uint32_t {
#define TSR_TYPE(Name, id, name, block, bytes, role) k##Name = id,
#include "quants/types.def"
#undef TSR_TYPE
};

/// The block size of a type, to step along a row.
struct Format {
    int block;  // weights
    int block_bytes;
};

/// The reference decoder of a weight type (quants/ref): n weights, n % block == 0, at any alignment.
/// Compiled without ISA flags.
void dequantize_reference(uint32_t type_id, const void* src, float* dst, int64_t n);

}  // namespace tessera::kernels
