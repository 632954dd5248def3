#pragma once
// Serializes structures field by field: little endian, no padding. One function that lists the fields serves
// both directions, so that reading and writing agree. Internal to the context file.
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "common/bytes.h"
#include "common/expected.h"
#include "src/npu/encoding.h"
#include "src/npu/requant.h"

namespace tessera::npu {

/// Called with all fields of a structure: io(t.ddr, t.rows). Strings are preceded by their length.
class FieldWriter {
  public:
    static constexpr bool kReads = false;
    template <class T>
    using Ref = const T&;

    template <class... T>
    void operator()(const T&... values) {
        (put(values), ...);
    }
    /// A list whose elements are serialized by each(element), at least `least_bytes` each.
    template <class T, class Each>
    void list(const std::vector<T>& items, size_t /*least_bytes*/, const Each& each) {
        put(static_cast<uint32_t>(items.size()));
        for (const T& item : items) each(item);
    }
    /// Pads with zeros to n_bytes from `start`; there must not be more already.
    void pad(size_t start, size_t n_bytes) {
        TSR_CHECK(pos() - start <= n_bytes);
        bytes_.resize(start + n_bytes);
    }

    size_t pos() const { return bytes_.size(); }
    std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    template <class T>
    void put(const T& value) {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        put_bytes(&value, sizeof value);
    }
    void put(const Encoding& e) { (*this)(e.bits, e.scale, e.zero); }
    void put(const Multiplier& m) { (*this)(m.mult, m.shift, m.lost_bits); }
    void put(const std::string& text) {
        put(static_cast<uint32_t>(text.size()));
        put_bytes(text.data(), text.size());
    }
    void put_bytes(const void* from, size_t n) {
        const auto* at = static_cast<const std::byte*>(from);
        bytes_.insert(bytes_.end(), at, at + n);
    }

    std::vector<std::byte> bytes_;
};

/// The reading direction. A read past the end, or bytes that no writer produces, latch failure and yield
/// zeros. Allocations are bounded by the number of input bytes. Enumerators are not checked here: the caller
/// does that.
class FieldReader {
  public:
    static constexpr bool kReads = true;
    template <class T>
    using Ref = T&;

    explicit FieldReader(std::span<const std::byte> bytes) : in_(bytes) {}

    template <class... T>
    void operator()(T&... values) {
        (get(values), ...);
    }
    template <class T, class Each>
    void list(std::vector<T>& items, size_t least_bytes, const Each& each) {
        const auto n = in_.get<uint32_t>();
        if (n > in_.remaining() / least_bytes) is_sound_ = false;
        items.resize(ok() ? n : 0);
        for (T& item : items)
            if (ok()) each(item);
    }
    void pad(size_t start, size_t n_bytes) {
        while (ok() && in_.pos() < start + n_bytes) is_sound_ &= in_.get<uint8_t>() == 0;
    }

    bool ok() const { return is_sound_ && in_.ok(); }
    size_t pos() const { return in_.pos(); }
    size_t remaining() const { return in_.remaining(); }

  private:
    template <class T>
    void get(T& value) {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        value = in_.get<T>();
    }
    void get(bool& value) {
        const auto byte = in_.get<uint8_t>();
        is_sound_ &= byte <= 1;
        value = byte == 1;
    }
    void get(Encoding& e) { (*this)(e.bits, e.scale, e.zero); }
    void get(Multiplier& m) { (*this)(m.mult, m.shift, m.lost_bits); }
    void get(std::string& text) { text = in_.view(in_.get<uint32_t>()); }

    ByteReader in_;
    bool is_sound_ = true;
};

}  // namespace tessera::npu
