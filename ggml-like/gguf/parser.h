#pragma once
// The two passes over the bytes of one GGUF file. Internal to gguf/; File::open joins the shards.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "common/expected.h"
#include "ggml-like/gguf/file.h"
#include "ggml-like/gguf/name_index.h"

namespace tessera::gguf {

/// The keys of one file, their index, and the index of their string arrays.
struct Metadata {
    std::vector<KeyValue> keys;
    NameIndex index;
    std::vector<std::unique_ptr<const std::byte*[]>> string_arrays;

    std::string_view key_at(uint32_t position) const { return keys[position].key; }
    /// Null when absent.
    const Value* find(std::string_view key) const;
};

/// Reads one file: walk() checks the structure up to the end of the metadata without allocating, so that the
/// build functions after it can allocate exactly what is needed. Errors name keys and tensors,
/// not the file. All results are views into `bytes`.
struct Parser {
    explicit Parser(std::span<const std::byte> file_bytes) : bytes(file_bytes), in(file_bytes) {}

    Result<void> walk();

    /// After walk(): all keys, with room for n_extra more. Refuses duplicates.
    Result<Metadata> build_keys(size_t n_extra);
    /// After build_keys(): appends the file's tensors, checked against the file's size and against each
    /// other.
    Result<void> append_tensors(std::vector<TensorInfo>& tensors, int file_index);

    std::span<const std::byte> bytes;
    uint32_t version = 0;
    uint64_t n_keys = 0;
    uint64_t n_tensors = 0;
    uint64_t alignment = 0;
    uint64_t data_start = 0;
    std::optional<Value> split_no, split_count, split_tensors;
    std::optional<Value> packed_version, packed_layout, packed_alignment;

  private:
    struct TensorRecord {
        std::string_view name;
        uint32_t n_dims;
        uint64_t dims[4];  // innermost first, as in the file
        uint32_t type_id;
        uint64_t offset;
    };

    Result<void> read_header();
    Result<void> note_container_key(const KeyValue& kv);
    /// Key number i; with `keep`, string arrays are indexed there.
    Result<KeyValue> read_key(uint64_t i, Metadata* keep);
    Result<Value> read_value(std::string_view key, Metadata* keep);
    Result<Value> read_array(std::string_view key, Metadata* keep);
    Result<Value> read_strings(std::string_view key, uint64_t count, Metadata* keep);
    Result<TensorRecord> read_tensor(uint64_t i);
    Result<void> check_packed_tensor(const TensorRecord& record) const;
    Result<TensorInfo> check_tensor(const TensorRecord& record, int file_index) const;
    tl::unexpected<Error> truncated(const std::string& where) const;

    ByteReader in;
    uint64_t keys_end = 0;
};

}  // namespace tessera::gguf
