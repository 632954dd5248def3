// Values of GGUF metadata: conversions from their bytes, their printed form, and the parsing of overrides.
// parser.cpp validates the bytes before a Value is made.
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"

namespace tessera::gguf {

namespace {

template <class T>
T load(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

/// The shortest digits that read back as the same number.
template <class T>
std::string shortest(T number) {
    char text[48];
    const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
    return {text, end};
}

}  // namespace

std::optional<int64_t> Value::as_int() const {
    switch (type_) {
        case ValueType::U8:
        case ValueType::Bool:
            return load<uint8_t>(data_);
        case ValueType::I8:
            return load<int8_t>(data_);
        case ValueType::U16:
            return load<uint16_t>(data_);
        case ValueType::I16:
            return load<int16_t>(data_);
        case ValueType::U32:
            return load<uint32_t>(data_);
        case ValueType::I32:
            return load<int32_t>(data_);
        case ValueType::I64:
            return load<int64_t>(data_);
        case ValueType::U64: {
            const auto value = load<uint64_t>(data_);
            if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return {};
            return static_cast<int64_t>(value);
        }
        case ValueType::F32:
        case ValueType::F64:
        case ValueType::String:
        case ValueType::Array:
            return {};
    }
    return {};
}

std::optional<double> Value::as_float() const {
    if (type_ == ValueType::F32) return load<float>(data_);
    if (type_ == ValueType::F64) return load<double>(data_);
    if (type_ == ValueType::U64) return static_cast<double>(load<uint64_t>(data_));
    if (type_ == ValueType::Bool) return {};
    if (const auto value = as_int()) return static_cast<double>(*value);
    return {};
}

std::optional<bool> Value::as_bool() const {
    if (type_ != ValueType::Bool) return {};
    return load<uint8_t>(data_) != 0;
}

std::optional<std::string_view> Value::as_string() const {
    if (type_ != ValueType::String) return {};
    return std::string_view(static_cast<const char*>(data_), count_);
}

Value Value::at(uint64_t i) const {
    TSR_CHECK(i < size());
    Value element;
    element.type_ = element_;
    if (element_ == ValueType::String) {
        const std::byte* length_field = static_cast<const std::byte* const*>(data_)[i];
        element.count_ = load<uint64_t>(length_field);
        element.data_ = length_field + sizeof(uint64_t);
    } else {
        element.data_ = static_cast<const std::byte*>(data_) + i * value_bytes(element_);
    }
    return element;
}

std::span<const std::byte> Value::raw() const {
    if (is_string_array()) return {};
    const auto* bytes = static_cast<const std::byte*>(data_);
    if (type_ == ValueType::String) return {bytes, count_};
    if (is_array()) return {bytes, count_ * value_bytes(element_)};
    return {bytes, value_bytes(type_)};
}

std::string Value::to_string(size_t max_items) const {
    switch (type_) {
        case ValueType::Bool:
            return *as_bool() ? "true" : "false";
        case ValueType::F32:
            return shortest(load<float>(data_));
        case ValueType::F64:
            return shortest(load<double>(data_));
        case ValueType::U64:
            return shortest(load<uint64_t>(data_));
        case ValueType::String:
            return printable(*as_string(), std::numeric_limits<size_t>::max());
        case ValueType::Array:
            break;
        default:
            return shortest(*as_int());
    }
    std::string text = "[" + std::to_string(count_) + "]";
    for (uint64_t i = 0; i < count_; i++) {
        text += i == 0 ? " " : ", ";
        if (i == max_items) return text + "...";
        const auto item = at(i);
        const auto string = item.as_string();
        text += string ? printable(*string) : item.to_string();
    }
    return text;
}

Result<Override> parse_override(std::string_view argument) {
    const size_t equals = argument.find('=');
    const size_t colon = argument.find(':', equals == std::string_view::npos ? argument.size() : equals);
    const std::string shown = printable(argument);
    if (colon == std::string_view::npos) {
        return fail(ErrorCode::InvalidArgument,
                    "override '%s': expected KEY=TYPE:VALUE with TYPE int, float, bool or str, such as "
                    "llama.context_length=int:4096",
                    shown.c_str());
    }
    Override parsed;
    parsed.adds = argument.starts_with('+');
    parsed.key = argument.substr(parsed.adds, equals - parsed.adds);
    if (parsed.key.empty() || parsed.key.size() > kMaxKeyBytes || !is_clean_name(parsed.key)) {
        return fail(ErrorCode::InvalidArgument,
                    "override '%s': expected a key of 1 to 65535 bytes without control characters before '='",
                    shown.c_str());
    }
    const std::string_view type = argument.substr(equals + 1, colon - equals - 1);
    const std::string_view text = argument.substr(colon + 1);
    const auto wrong = [&](const char* expected) {
        return fail(ErrorCode::InvalidArgument, "override '%s': expected %s after '%s:', found '%s'",
                    shown.c_str(), expected, std::string(type).c_str(), printable(text).c_str());
    };
    if (type == "int") {
        const auto value = parse_int(text);
        if (!value) return wrong("an integer of 64 bits");
        parsed.type = ValueType::I64;
        parsed.i = *value;
    } else if (type == "float") {
        const auto value = parse_double(text);
        if (!value || !std::isfinite(*value)) return wrong("a finite number");
        parsed.type = ValueType::F64;
        parsed.f = *value;
    } else if (type == "bool") {
        if (text != "true" && text != "false") return wrong("true or false");
        parsed.type = ValueType::Bool;
        parsed.i = text == "true";
    } else if (type == "str") {
        parsed.type = ValueType::String;
        parsed.s = text;
    } else {
        return fail(ErrorCode::InvalidArgument,
                    "override '%s': expected the type int, float, bool or str, found '%s'", shown.c_str(),
                    printable(type).c_str());
    }
    return parsed;
}

}  // namespace tessera::gguf
