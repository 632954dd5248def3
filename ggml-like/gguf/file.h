#pragma once
// A GGUF model file, opened: everything is validated first, then exposed as views into the mapping.
// Format: ggml's GGUF specification, versions 2 and 3, little endian.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "common/mapped_file.h"
#include "quants/types.h"

namespace tessera::gguf {

/// The ids of the file format, four bytes each.
enum class ValueType : uint8_t {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
};

const char* value_type_name(ValueType type);

inline constexpr uint32_t kValueTypes = 13;  ///< ids below this are valid

/// "u32", "string", ...
const char* value_type_name(ValueType type);

/// One metadata value: a view into the file (or into the File's store of overrides). Valid while the File
/// lives.
class Value {
  public:
    ValueType type() const { return type_; }
    bool is_array() const { return type_ == ValueType::Array; }
    /// Arrays only.
    ValueType element_type() const { return element_; }
    /// Number of elements of an array; 0 for scalars.
    uint64_t size() const { return is_array() ? count_ : 0; }

    /// Any integer type (bool counts as 0/1) that fits int64; nothing otherwise.
    std::optional<int64_t> as_int() const;
    /// F32, F64 or an integer.
    std::optional<double> as_float() const;
    std::optional<bool> as_bool() const;
    std::optional<std::string_view> as_string() const;

    /// Element i < size() of an array as a scalar Value. O(1); string arrays are indexed when the file opens.
    Value at(uint64_t i) const;

    /// The value as stored in the file, little endian, unaligned: a scalar, the text of a string, or the
    /// packed elements of an array. Empty for an array of strings, which are read through at().
    std::span<const std::byte> raw() const;

    /// The value for people, on one line: scalars in full, arrays as "[n] first, second, ..." cut at
    /// max_items.
    std::string to_string(size_t max_items = 6) const;

  private:
    friend class File;
    friend struct Parser;

    bool is_string_array() const { return is_array() && element_ == ValueType::String; }

    // The value's bytes; for a string array its index, `const std::byte* [count_]`, of the length fields.
    const void* data_ = nullptr;
    uint64_t count_ = 0;  // elements of an array, bytes of a string
    ValueType type_ = ValueType::U8;
    ValueType element_ = ValueType::U8;
};

struct KeyValue {
    std::string_view key;
    Value value;
};

/// A tensor of the file. Shape is row-major, outermost first (the file's ne[] reversed, once, here); unused
/// leading dimensions are not stored. Every dimension is at least 1, a row is a whole number of blocks, and
/// the data is aligned to the file's alignment (which may be as small as 1).
struct TensorInfo {
    std::string_view name;
    Type type;
    Layout layout;  // Packed in a packed container only, of 2 or 3 dimensions (ggml-like/gguf/packed.h)
    int n_dims;
    int64_t shape[4];                 // [n_dims]
    std::span<const std::byte> data;  // type's blocks in that layout; valid while the File lives
    int file_index;                   // which split file

    int64_t n_elements() const;
    int64_t n_cols() const { return shape[n_dims - 1]; }  // the contracted dimension
    /// The id of the type and layout in the file.
    uint32_t type_id() const;
    std::string shape_string() const;  // "[512, 128]"
};

/// A `--override-kv KEY=TYPE:VALUE` argument: TYPE is int, float, bool or str. It replaces the file's value
/// of the key, whatever its type. +KEY=TYPE:VALUE also adds a key that the file does not have. The keys that
/// describe the container itself cannot be overridden.
struct Override {
    std::string key;
    ValueType type = ValueType::I64;  // I64, F64, Bool or String
    int64_t i = 0;                    // of I64 and Bool
    double f = 0;
    std::string s;
    bool adds = false;  // the key may be absent
};
Result<Override> parse_override(std::string_view argument);

class File {
  public:
    struct Options {
        std::vector<Override> overrides;
    };

    /// Opens a GGUF file, or the first of a split (`NAME-00001-of-00003.gguf`) with all its siblings, whose
    /// tensors then follow those of the first; the keys are the first's. O(bytes of metadata). Allocates no
    /// more than four times the metadata's size and a few KiB. Every error names the file at fault.
    static Result<File> open(const std::string& path, const Options& options);
    static Result<File> open(const std::string& path) { return open(path, Options{}); }

    /// The same for bytes in memory that outlive the File; for tests and fuzzing. One file: a shard of a
    /// split opens alone, and mapping(0) is empty.
    static Result<File> parse(std::span<const std::byte> bytes, const std::string& name,
                              const Options& options);

    File(File&&) noexcept;
    File& operator=(File&&) noexcept;
    ~File();

    const std::string& path() const;
    uint32_t version() const;
    uint64_t alignment() const;
    int n_files() const;
    /// Bytes of all the files together.
    uint64_t total_bytes() const;
    /// file_index in [0, n_files()).
    const MappedFile& mapping(int file_index) const;
    /// A part of the data, copied from the file to `room`, which has its size (errors: those of
    /// MappedFile::read). For a File parsed from memory, a pointer to the data itself.
    Result<const std::byte*> read(std::span<const std::byte> data, std::byte* room) const;
    /// Releases the resident pages of a part of the mappings; they are read again when touched.
    void release(std::span<const std::byte> data) const;
    /// Makes a part of the mappings resident (MappedFile::touch).
    void touch(std::span<const std::byte> data) const;
    /// Whether this is a packed container of the supported version.
    bool is_packed() const;

    std::span<const KeyValue> keys() const;
    std::span<const TensorInfo> tensors() const;

    /// Null when absent. O(1).
    const Value* find(std::string_view key) const;
    const TensorInfo* find_tensor(std::string_view name) const;

    /// A required key of the given kind and range. Errors name file, key, expectation and finding: NotFound
    /// if it is missing, Malformed if it has another kind or is out of range. An integer is accepted as a
    /// float, but not the reverse.
    Result<int64_t> get_int(std::string_view key, int64_t min, int64_t max) const;
    Result<double> get_float(std::string_view key) const;  // finite
    Result<bool> get_bool(std::string_view key) const;
    Result<std::string_view> get_string(std::string_view key) const;
    /// The same with a default for an absent key (a present one of the wrong kind stays an error).
    Result<int64_t> get_int_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const;
    Result<double> get_float_or(std::string_view key, double fallback) const;
    Result<bool> get_bool_or(std::string_view key, bool fallback) const;
    Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;
    /// A required array whose elements are of `element` type.
    Result<Value> get_array(std::string_view key, ValueType element) const;

  private:
    struct State;
    explicit File(std::unique_ptr<State> state);
    /// The position of a part of the data; without a file if it is in memory.
    struct Place {
        const MappedFile* file;
        size_t offset;
    };
    Place place_of(std::span<const std::byte> data) const;
    Result<const Value*> require(std::string_view key, const char* expected) const;
    tl::unexpected<Error> wrong_value(std::string_view key, const std::string& expected,
                                      const Value& found) const;

    std::unique_ptr<State> state_;
};

}  // namespace tessera::gguf
