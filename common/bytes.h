#pragma once
// Bounds-checked little-endian cursor over untrusted bytes. After a read past the end, ok() is false and all
// reads give zeros, so a parser may read a record and test ok() once.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

static_assert(std::endian::native == std::endian::little, "tessera files and code are little endian");

namespace tessera {

class ByteReader {
  public:
    explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    bool ok() const { return ok_; }
    size_t pos() const { return pos_; }
    size_t size() const { return bytes_.size(); }
    size_t remaining() const { return bytes_.size() - pos_; }

    /// Any trivially copyable value; zero and ok() == false when fewer bytes are left.
    template <class T>
    T get() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        if (const std::byte* at = take(sizeof(T))) std::memcpy(&value, at, sizeof(T));
        return value;
    }

    /// A view of the next n bytes (valid while the underlying bytes live); empty on failure.
    std::string_view view(uint64_t n) {
        const std::byte* at = take(n);
        return at ? std::string_view(reinterpret_cast<const char*>(at), static_cast<size_t>(n))
                  : std::string_view();
    }

    void skip(uint64_t n) { take(n); }
    void seek(uint64_t pos) {
        if (pos > bytes_.size())
            ok_ = false;
        else
            pos_ = static_cast<size_t>(pos);
    }

  private:
    const std::byte* take(uint64_t n) {
        if (!ok_ || n > remaining()) {
            ok_ = false;
            return nullptr;
        }
        const std::byte* at = bytes_.data() + pos_;
        pos_ += static_cast<size_t>(n);
        return at;
    }

    std::span<const std::byte> bytes_;
    size_t pos_ = 0;
    bool ok_ = true;
};

}  // namespace tessera
