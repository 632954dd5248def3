// Sizes, names and paths of the GGUF container. Pure functions of values that the caller has already bounded,
// as the reader in parser.cpp does.
#include "ggml-like/gguf/format.h"

#include <algorithm>
#include <cinttypes>

#include "common/strings.h"
#include "common/utf8.h"

namespace tessera::gguf {

const char* value_type_name(ValueType type) {
    switch (type) {
        case ValueType::U8:
            return "u8";
        case ValueType::I8:
            return "i8";
        case ValueType::U16:
            return "u16";
        case ValueType::I16:
            return "i16";
        case ValueType::U32:
            return "u32";
        case ValueType::I32:
            return "i32";
        case ValueType::F32:
            return "f32";
        case ValueType::Bool:
            return "bool";
        case ValueType::String:
            return "string";
        case ValueType::Array:
            return "array";
        case ValueType::U64:
            return "u64";
        case ValueType::I64:
            return "i64";
        case ValueType::F64:
            return "f64";
    }
    return "unknown";
}

uint64_t value_bytes(ValueType type) {
    switch (type) {
        case ValueType::U8:
        case ValueType::I8:
        case ValueType::Bool:
            return 1;
        case ValueType::U16:
        case ValueType::I16:
            return 2;
        case ValueType::U32:
        case ValueType::I32:
        case ValueType::F32:
            return 4;
        case ValueType::U64:
        case ValueType::I64:
        case ValueType::F64:
            return 8;
        case ValueType::String:
        case ValueType::Array:
            return 0;
    }
    return 0;
}

bool is_split_key(std::string_view key) {
    return key == kSplitNoKey || key == kSplitCountKey || key == kSplitTensorsKey;
}

bool is_valid_alignment(uint64_t alignment) {
    return alignment >= 1 && alignment <= kMaxAlignment && (alignment & (alignment - 1)) == 0;
}

bool is_clean_name(std::string_view name) {
    bool ascii = true;
    for (const char c : name) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) return false;
        if (byte >= 0x80) ascii = false;
    }
    return ascii || utf8::is_valid(name);
}

std::string shape_string(std::span<const int64_t> shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

Result<uint64_t> tensor_bytes(std::string_view name, std::span<const int64_t> shape, Type type) {
    const TypeInfo& info = type_info(type);
    const std::string type_name(info.name);
    const auto describe_tensor = [&] {
        return strf("tensor '%s' (%s %s)", printable(name).c_str(), type_name.c_str(),
                    shape_string(shape).c_str());
    };
    if (shape.empty() || shape.size() > kMaxDims) {
        return fail(ErrorCode::Malformed, "tensor '%s': expected 1 to %d dimensions, found %zu",
                    printable(name).c_str(), kMaxDims, shape.size());
    }
    if (*std::min_element(shape.begin(), shape.end()) < 1) {
        return fail(ErrorCode::Malformed, "%s: expected every dimension to be at least 1",
                    describe_tensor().c_str());
    }
    const int64_t columns = shape.back();
    if (columns % info.block != 0) {
        return fail(ErrorCode::Malformed,
                    "%s: expected rows of a multiple of %d weights, the block of %s, found %" PRId64,
                    describe_tensor().c_str(), info.block, type_name.c_str(), columns);
    }
    int64_t bytes = 0;
    int64_t elements = columns;
    bool overflow =
        __builtin_mul_overflow(columns / info.block, static_cast<int64_t>(info.block_bytes), &bytes);
    for (const int64_t dim : shape.first(shape.size() - 1)) {
        overflow |= __builtin_mul_overflow(bytes, dim, &bytes);
        overflow |= __builtin_mul_overflow(elements, dim, &elements);
    }
    if (overflow) {
        return fail(ErrorCode::Malformed, "%s: its size does not fit 63 bits", describe_tensor().c_str());
    }
    return static_cast<uint64_t>(bytes);
}

std::string describe(const Value& value) {
    if (value.is_array()) {
        return strf("an array of %" PRIu64 " %s", value.size(), value_type_name(value.element_type()));
    }
    const char* type = value_type_name(value.type());
    if (auto text = value.as_string()) return strf("%s \"%s\"", type, printable(*text).c_str());
    return strf("%s %s", type, value.to_string().c_str());
}

namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr size_t kSplitDigits = 5;

/// The five digits at `at`, or nothing.
std::optional<int> split_digits(std::string_view path, size_t at) {
    const std::string_view digits = path.substr(at, kSplitDigits);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (digits.size() != kSplitDigits || !std::all_of(digits.begin(), digits.end(), is_digit)) return {};
    return static_cast<int>(*parse_int(digits));
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view path) {
    constexpr std::string_view kOf = "-of-";
    constexpr size_t kTail = 1 + kSplitDigits + kOf.size() + kSplitDigits + kExtension.size();
    if (path.size() <= kTail || !path.ends_with(kExtension)) return {};
    const size_t dash = path.size() - kTail;
    const size_t of = dash + 1 + kSplitDigits;
    if (path[dash] != '-' || path.substr(of, kOf.size()) != kOf) return {};
    const auto number = split_digits(path, dash + 1);
    const auto count = split_digits(path, of + kOf.size());
    if (!number || !count || *number < 1 || *number > *count) return {};
    return SplitName{std::string(path.substr(0, dash)), *number, *count};
}

std::string split_path(const std::string& prefix, int number, int count) {
    return strf("%s-%05d-of-%05d.gguf", prefix.c_str(), number, count);
}

}  // namespace tessera::gguf
