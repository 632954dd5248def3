#pragma once
// An open safetensors file: the header is fully validated, and tensors are views into the mapping. Format: 8
// bytes with the header's length N, N bytes of JSON, then the data; the tensors' offsets, relative to its
// beginning, must cover it without holes and without overlap.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "common/mapped_file.h"

namespace tessera::convert {

enum class Dtype : uint8_t { F64, F32, F16, BF16, F8_E4M3, F8_E5M2, U8, Other };

/// Bytes of one element; 0 for Other.
int64_t dtype_bytes(Dtype dtype);
/// "F8_E4M3".
std::string_view dtype_name(Dtype dtype);

struct SafeTensor {
    std::string name;
    Dtype dtype;
    std::string dtype_text;           // as in the file
    std::vector<int64_t> shape;       // outermost first; empty for a scalar
    std::span<const std::byte> data;  // unaligned; valid while the file lives

    int64_t n_elements() const;
    std::string shape_string() const;  // "[512, 128]"
};

class SafetensorsFile {
  public:
    /// Errors name the file and the tensor: a header longer than the file or than 100 MB, invalid JSON, or
    /// duplicate names; an unknown dtype; a shape that does not match the number of bytes; data that overlap,
    /// leave holes or exceed the file.
    static Result<SafetensorsFile> open(const std::string& path);
    /// The same for bytes in memory, which must outlive the result.
    static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& name);

    const std::string& path() const { return path_; }
    /// In the order of their data.
    std::span<const SafeTensor> tensors() const { return tensors_; }
    /// Releases the pages of a part of the mapping.
    void release(std::span<const std::byte> data) const;

  private:
    Result<void> read(std::span<const std::byte> bytes);

    std::string path_;
    MappedFile mapping_;
    std::vector<SafeTensor> tensors_;
};

}  // namespace tessera::convert
