#pragma once
// Streaming GGUF v3 writer: metadata first, then tensor bytes in the order they were declared. The file
// appears under its name at finish() (output_file.h), so that nothing incomplete is left behind.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"
#include "quants/types.h"

namespace tessera::gguf {

/// One thread at a time. The first error sticks: everything after it returns the same error and finish()
/// leaves the target as it was. Metadata is held in memory until begin_data(); tensor data is not.
class Writer {
  public:
    /// `alignment` of the tensor data, a power of two up to 1 MiB. One other than 32 is written as the key
    /// general.alignment; if the caller sets that key, the values must agree.
    explicit Writer(std::string path, uint32_t alignment = 32);
    ~Writer();  // discards the file when finish() was not reached
    Writer(Writer&&) noexcept;
    Writer& operator=(Writer&&) = delete;

    /// Metadata; before begin_data(), which reports errors in it. A key set twice is replaced in
    /// place.
    void set_int(std::string_view key, ValueType type, int64_t value);
    void set_u32(std::string_view key, uint32_t value) { set_int(key, ValueType::U32, value); }
    void set_float(std::string_view key, double value, ValueType type = ValueType::F32);
    void set_bool(std::string_view key, bool value);
    void set_string(std::string_view key, std::string_view value);
    void set_strings(std::string_view key, std::span<const std::string> values);
    /// `packed`: whole little-endian elements of a type of fixed size.
    void set_array(std::string_view key, ValueType element, std::span<const std::byte> packed);
    /// Any value of an open file, unchanged.
    void set_value(std::string_view key, const Value& value);

    /// Declares the next tensor; shape outermost first. `type_id` is a GGUF type id, that of a packed type,
    /// or another private one (from 0x10000 on); n_bytes is its data's size, which must be right for a type
    /// that we know.
    void add_tensor(std::string_view name, std::span<const int64_t> shape, uint32_t type_id,
                    uint64_t n_bytes);

    /// Writes header, metadata and tensor records. Then write() once or more per tensor, in order, n_bytes in
    /// all; no call may go past the end of its tensor.
    Result<void> begin_data();
    /// The bytes that begin_data() would write, without writing a file.
    Result<std::vector<std::byte>> head();
    Result<void> write(std::span<const std::byte> bytes);
    /// complete() and publish().
    Result<void> finish();
    /// Checks that every tensor is complete and syncs the file, which publish() then gives its name.
    /// `keep_open` and `sync`: as of OutputFile.
    Result<void> complete(bool keep_open = true);
    Result<void> publish(bool sync = true);

    /// Size of the finished file; valid after the last add_tensor().
    uint64_t total_bytes() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace tessera::gguf
