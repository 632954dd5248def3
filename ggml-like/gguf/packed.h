#pragma once
// The packed container: its keys, its type ids, and the sizes of tensors whose rows are interleaved for the
// kernels. Format: docs/formats/packed-gguf.md. Shared by reader, writer and the code that packs and unpacks.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"
#include "quants/types.h"

namespace tessera::gguf {

inline constexpr std::string_view kPackedVersionKey = "tessera.packed.version";  ///< u32, kPackedVersion
inline constexpr std::string_view kPackedLayoutKey = "tessera.packed.layout";    ///< string, kPackedLayout
/// u32: general.alignment of the stock file; absent where that has no such key.
inline constexpr std::string_view kPackedAlignmentKey = "tessera.packed.alignment";

inline constexpr uint32_t kPackedVersion = 2;
inline constexpr std::string_view kPackedLayout = "p8x4";
/// Each matrix starts at a multiple of this, as packed matrices in memory do.
inline constexpr uint32_t kPackedAlignment = 64;

/// Whether a key is one of those above.
bool is_packed_key(std::string_view key);

/// Checks the packed keys of a file that has at least one of them. Errors: Unsupported, with advice, for
/// another version or layout.
Result<void> check_packed_keys(const std::optional<Value>& version, const std::optional<Value>& layout,
                               const std::optional<Value>& alignment);

/// Whether matrices of this type have a packed order.
bool has_packed_layout(Type type);

/// The meaning of a tensor's type id.
struct StoredType {
    Type type = Type::F32;
    Layout layout = Layout::Rows;
};

/// 0x5453LLTT: layout LL, type TT. Only the ids that stored_type_from_id() accepts are in use.
bool is_packed_type_id(uint32_t id);
/// With layout Packed the type must have a packed order.
uint32_t stored_type_id(StoredType stored);
/// As type_from_id(), and the packed types. Errors tell an unknown layout from a wrong type.
Result<StoredType> stored_type_from_id(uint32_t id);
/// "q4_k", or "q4_k p8x4" when packed.
std::string stored_name(StoredType stored);

/// Bytes of a tensor's data; shape outermost first. As tensor_bytes(), and for a packed tensor: 2 or 3
/// dimensions, each matrix whole groups of 8 rows, filled up to kPackedAlignment.
Result<uint64_t> stored_bytes(std::string_view name, std::span<const int64_t> shape, StoredType stored);

}  // namespace tessera::gguf
