#pragma once
// Owned memory: one big zero-filled block aligned for SIMD and huge pages, and a bump allocator over it.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/expected.h"

namespace tessera {

/// A zero-filled mapping of its own, in huge pages where it is large enough (map_pages). Movable.
class Buffer {
  public:
    /// `what` names the buffer in the OutOfMemory error. n_bytes == 0 gives an empty buffer.
    static Result<Buffer> create(size_t n_bytes, const char* what);

    Buffer() = default;
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();

    std::byte* data() { return data_; }
    const std::byte* data() const { return data_; }
    size_t size() const { return size_; }

    template <class T>
    T* as() {
        return reinterpret_cast<T*>(data_);
    }

  private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

/// Allocates 64-byte aligned pieces of one Buffer. The size is fixed; exceeding it is a bug (TSR_CHECK).
class Arena {
  public:
    static Result<Arena> create(size_t n_bytes, const char* what);

    Arena() = default;

    /// n zero-initialised elements of T on first use of the arena (reset() does not clear).
    template <class T>
    std::span<T> take(size_t n) {
        return {reinterpret_cast<T*>(take_bytes(n * sizeof(T))), n};
    }

    void reset() { used_ = 0; }
    size_t used() const { return used_; }
    size_t capacity() const { return buffer_.size(); }

    /// Bytes that take<T>(n) consumes, for sizing an arena beforehand.
    static constexpr size_t padded(size_t n_bytes) { return (n_bytes + 63) / 64 * 64; }

  private:
    std::byte* take_bytes(size_t n_bytes);

    Buffer buffer_;
    size_t used_ = 0;
};

/// Allocates nothing: counts the bytes that an arena needs for the same pieces.
class ArenaSize {
  public:
    template <class T>
    std::span<T> take(size_t n) {
        bytes_ += Arena::padded(n * sizeof(T));
        return {};
    }
    size_t bytes() const { return bytes_; }

  private:
    size_t bytes_ = 0;
};

/// The same pieces from memory of someone else, which has the bytes that ArenaSize counted.
class ArenaPiece {
  public:
    explicit ArenaPiece(std::byte* memory) : at_(memory) {}

    template <class T>
    std::span<T> take(size_t n) {
        T* piece = reinterpret_cast<T*>(at_);
        at_ += Arena::padded(n * sizeof(T));
        return {piece, n};
    }

  private:
    std::byte* at_;
};

}  // namespace tessera
