#pragma once
// Shared by reader and writer of the GGUF container: constants, naming rules, sizes. Internal to gguf/ and to
// the tools that split and merge files.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"
#include "quants/types.h"

namespace tessera::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kVersion = 3;
inline constexpr uint64_t kHeaderBytes = 24;  ///< magic, version, number of tensors, number of keys
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr uint32_t kMaxAlignment = 1u << 20;
inline constexpr uint64_t kMaxKeyBytes = 65535;
inline constexpr uint64_t kMaxTensorNameBytes =
    255;  ///< the specification says 64; writers in the field use more
inline constexpr int kMaxDims = 4;

inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr std::string_view kSplitNoKey = "split.no";  ///< 0-based
inline constexpr std::string_view kSplitCountKey = "split.count";
inline constexpr std::string_view kSplitTensorsKey = "split.tensors.count";  ///< of all shards together

/// Bytes of one value of a type with a fixed size; 0 for String and Array.
uint64_t value_bytes(ValueType type);

/// Whether a key describes the file as a part of a split.
bool is_split_key(std::string_view key);

/// A power of two from 1 to kMaxAlignment.
bool is_valid_alignment(uint64_t alignment);

/// n rounded up to a multiple of `alignment`, a power of two.
inline uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) & ~(alignment - 1); }

/// Whether a name is valid UTF-8 without control characters.
bool is_clean_name(std::string_view name);

/// "[512, 128]".
std::string shape_string(std::span<const int64_t> shape);

/// Bytes of a tensor's data; shape outermost first. The error names the tensor: a dimension below 1, a row
/// that is no whole number of blocks, a size beyond 63 bits.
Result<uint64_t> tensor_bytes(std::string_view name, std::span<const int64_t> shape, Type type);

/// "u32 5", "string \"llama\"", "array of 320 f32": a value as error messages show it.
std::string describe(const Value& value);

/// The parts of `PREFIX-00001-of-00003.gguf`.
struct SplitName {
    std::string prefix;  ///< with its folders
    int number = 1;      ///< 1-based
    int count = 1;
};

/// Nothing when the path does not follow the pattern or number is not in [1, count].
std::optional<SplitName> parse_split_name(std::string_view path);
std::string split_path(const std::string& prefix, int number, int count);

}  // namespace tessera::gguf
