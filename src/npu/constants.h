#pragma once
// Weights, records and tables of all graphs of a model, once each.
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::npu {

class Constants {
  public:
    /// Each begins at a multiple of this.
    static constexpr uint64_t kAlignment = 128;

    /// Where bytes lie that are these; appended unless there are such.
    uint64_t add(std::span<const std::byte> bytes);
    template <class T>
    uint64_t add_all(std::span<const T> values) {
        return add(std::as_bytes(values));
    }

    /// Has room for so many bytes in all, which are not touched before they are added.
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
