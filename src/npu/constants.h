#pragma once
// Weights, records and tables of all graphs of a model, deduplicated.
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::npu {

class Constants {
  public:
    /// Alignment of each entry.
    static constexpr uint64_t kAlignment = 128;

    /// Offset of an entry with these bytes; appends one if there is none.
    uint64_t add(std::span<const std::byte> bytes);
    template <class T>
    uint64_t add_all(std::span<const T> values) {
        return add(std::as_bytes(values));
    }

    /// Reserves n_bytes in total without touching the pages.
    void reserve(size_t n_bytes) { bytes_.reserve(n_bytes); }
    std::vector<std::byte> take() { return std::move(bytes_); }
    size_t size() const { return bytes_.size(); }

  private:
    struct Piece {
        uint64_t offset, n_bytes;
    };
    std::vector<std::byte> bytes_;
    std::unordered_multimap<uint64_t, Piece> pieces_;  // by digest
};

}  // namespace tessera::npu
