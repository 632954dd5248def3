#pragma once
// The registry of tensor types, generated from types.def, and the scalar reference codecs.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/expected.h"

namespace tessera {

/// GGUF's own ids.
enum class Type : uint32_t {
#define TSR_TYPE(Name, id, name, block, bytes, role) Name = id,
#include "quants/types.def"
#undef TSR_TYPE
};

/// How the rows of a matrix lie in memory or in a file.
enum class Layout : uint8_t {
    Rows,    ///< the stock order: row after row of blocks
    Packed,  ///< groups of 8 interleaved rows (quants/kernels/packed.h), for the integer path or of floats
};

enum class TypeRole { Weight, Data };

/// Decodes n weights (n % block == 0) of consecutive blocks at src (any alignment) to f32. Exact: the value
/// that the format's formula gives, rounded as quants/blocks.h states.
using DequantizeFn = void (*)(const void* src, float* dst, int64_t n);

/// Encodes n weights (n % block == 0). `importance` [n] or null weighs the squared error of each weight.
using QuantizeFn = void (*)(const float* src, const float* importance, void* dst, int64_t n);

/// The same in one pass without a search, for data encoded while the model runs: the KV cache.
using StoreFn = void (*)(const float* src, void* dst, int64_t n);

struct TypeInfo {
    Type type;
    std::string_view name;  ///< lower case, e.g. "q4_k"
    int block;              ///< weights per block
    int block_bytes;
    TypeRole role;
    DequantizeFn dequantize;  ///< null for Data types
    QuantizeFn quantize;      ///< null where no encoder exists yet; KernelTable::encode is the fast one
    StoreFn store;            ///< null where no encoder of one pass exists

    double bits_per_weight() const { return 8.0 * block_bytes / block; }
    /// Bytes of a row of n weights; n % block == 0.
    int64_t row_bytes(int64_t n) const { return n / block * block_bytes; }
};

/// Every type in types.def, in its order.
std::span<const TypeInfo> all_types();

/// Never fails: Type has no values outside the list.
const TypeInfo& type_info(Type type);

/// A type id from a file. Errors name retired ids (4, 5, 31-33, 36-38) with their replacement, private ids of
/// other programs, and unknown ones.
Result<Type> type_from_id(uint32_t id);

/// "Q4_K" or "q4_k"; the error hints at the nearest name.
Result<Type> type_from_name(std::string_view name);

}  // namespace tessera
