#pragma once
// GGUF files composed by hand, well-formed or not, independently of the writer under test; and a walk over an
// open file that touches everything it exposes.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ggml-like/gguf/file.h"

namespace tessera::test {

template <class T>
std::string le(T value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
}

/// Length and bytes.
inline std::string lstr(std::string_view text) { return le<uint64_t>(text.size()) + std::string(text); }

struct RawGguf {
    std::string magic = "GGUF";
    uint32_t version = 3;
    uint64_t alignment = 32;
    uint64_t n_keys = 0;  // what the header claims: counted by the functions below, free to be set
    uint64_t n_tensors = 0;
    std::string keys, records, data;

    RawGguf& raw_key(std::string_view key, uint32_t type, const std::string& payload) {
        keys += lstr(key) + le(type) + payload;
        n_keys++;
        return *this;
    }
    template <class T>
    RawGguf& key(std::string_view name, gguf::ValueType type, T value) {
        return raw_key(name, static_cast<uint32_t>(type), le(value));
    }
    RawGguf& u32(std::string_view name, uint32_t value) { return key(name, gguf::ValueType::U32, value); }
    RawGguf& string(std::string_view name, std::string_view value) { return raw_key(name, 8, lstr(value)); }
    RawGguf& array(std::string_view name, uint32_t element, uint64_t count, const std::string& payload) {
        return raw_key(name, 9, le(element) + le(count) + payload);
    }

    RawGguf& raw_tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                        uint64_t offset) {
        records += lstr(name) + le(static_cast<uint32_t>(dims.size()));
        for (const uint64_t dim : dims) records += le(dim);
        records += le(type) + le(offset);
        n_tensors++;
        return *this;
    }
    /// A tensor whose bytes follow those of the one before, aligned.
    RawGguf& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                    std::string_view content) {
        data.resize((data.size() + alignment - 1) / alignment * alignment);
        raw_tensor(name, dims, type, data.size());
        data += content;
        return *this;
    }
    /// A well-formed F32 tensor [n] of the values 0, 1, 2 ...
    RawGguf& f32(std::string_view name, uint32_t n) {
        std::string content;
        for (uint32_t i = 0; i < n; i++) content += le(static_cast<float>(i));
        return tensor(name, {n}, 0, content);
    }

    std::string bytes() const {
        std::string out = magic + le(version) + le(n_tensors) + le(n_keys) + keys + records;
        out.resize((out.size() + alignment - 1) / alignment * alignment);
        return out + data;
    }
};

/// A file with a value of every type and arrays of every type, about 1.5 KB.
inline std::string every_type_bytes() {
    using gguf::ValueType;
    RawGguf raw;
    raw.string("general.architecture", "llama").u32("general.alignment", 32);
    raw.key("u8", ValueType::U8, uint8_t{200}).key("i8", ValueType::I8, int8_t{-100});
    raw.key("u16", ValueType::U16, uint16_t{60000}).key("i16", ValueType::I16, int16_t{-30000});
    raw.key("u32", ValueType::U32, 4000000000u).key("i32", ValueType::I32, -2000000000);
    raw.key("f32", ValueType::F32, 0.1f).key("bool", ValueType::Bool, uint8_t{1});
    raw.key("u64", ValueType::U64, uint64_t{1} << 63).key("i64", ValueType::I64, INT64_MIN);
    raw.key("f64", ValueType::F64, -1e300).string("empty", "");
    for (const uint32_t type : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 10u, 11u, 12u}) {
        const std::string two = type == 7 ? std::string("\x01\x00", 2) : std::string();
        const uint32_t size = type <= 1 || type == 7 ? 1 : type <= 3 ? 2 : type <= 6 ? 4 : 8;
        raw.array("array." + std::to_string(type), type, 2, type == 7 ? two : std::string(size * 2, '\x01'));
    }
    raw.array("strings", 8, 3, lstr("one") + lstr("") + lstr("drei"));
    raw.array("none", 8, 0, "").array("no.numbers", 6, 0, "");
    raw.f32("a.weight", 16).f32("b.weight", 3).tensor("c.weight", {32, 1}, 8, std::string(34, '\x02'));
    return raw.f32("d.weight", 1).bytes();
}

/// An empty packed container.
inline RawGguf packed_container() {
    RawGguf raw;
    raw.alignment = 64;
    raw.u32("general.alignment", 64).u32("tessera.packed.version", 2);
    return raw.string("tessera.packed.layout", "p8x4");
}

/// A packed container with a matrix, experts and a matrix in stock order, about 2 KB. The last byte is a
/// tensor's.
inline std::string packed_bytes() {
    RawGguf raw = packed_container();
    raw.u32("tessera.packed.alignment", 32);
    raw.tensor("matrix", {32, 9}, 0x54530108, std::string(576, '\x01'));
    raw.tensor("rows", {32, 2}, 8, std::string(68, '\x02'));
    raw.f32("vector", 5);
    return raw.tensor("experts", {32, 8, 3}, 0x54530102, std::string(576, '\x03')).bytes();
}

/// Bytes in an allocation of exactly their size, so that a sanitizer sees any read past the end.
class ExactBytes {
  public:
    explicit ExactBytes(std::string_view text) : size_(text.size()), bytes_(new std::byte[text.size()]) {
        std::memcpy(bytes_.get(), text.data(), size_);
    }
    std::span<const std::byte> span() const { return {bytes_.get(), size_}; }
    std::byte& operator[](size_t i) { return bytes_[i]; }

  private:
    size_t size_;
    std::unique_ptr<std::byte[]> bytes_;
};

/// Reads every value through every accessor, finds every key and tensor, reads each tensor's first and last
/// byte. Returns a checksum, so that nothing is optimised away.
inline uint64_t touch(const gguf::File& file) {
    uint64_t sum = file.version() + file.alignment() + file.total_bytes();
    const auto touch_scalar = [&sum](const gguf::Value& value) {
        sum += static_cast<uint64_t>(value.as_int().value_or(1));
        sum += value.as_float().value_or(0) > 0.5;
        sum += value.as_bool().value_or(false);
        if (const auto text = value.as_string()) {
            for (const char c : *text) sum += static_cast<unsigned char>(c);
        }
    };
    for (const gguf::KeyValue& kv : file.keys()) {
        touch_scalar(kv.value);
        for (uint64_t i = 0; i < kv.value.size(); i++) touch_scalar(kv.value.at(i));
        for (const std::byte b : kv.value.raw()) sum += static_cast<uint64_t>(b);
        sum += kv.value.to_string().size();
        sum += file.find(kv.key) == &kv.value;
    }
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        sum += static_cast<uint64_t>(tensor.data.front()) + static_cast<uint64_t>(tensor.data.back());
        sum += static_cast<uint64_t>(tensor.n_elements()) + tensor.shape_string().size();
        sum += file.find_tensor(tensor.name) == &tensor;
    }
    return sum;
}

}  // namespace tessera::test
