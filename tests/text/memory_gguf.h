#pragma once
// GGUF metadata built in memory, for tests that need a vocabulary of their own.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/strings.h"
#include "ggml-like/gguf/file.h"

namespace tessera::test {

/// Appends metadata; bytes() is the whole file (no tensors).
class MemoryGguf {
  public:
    MemoryGguf& text(std::string_view key, std::string_view value) {
        begin(key, gguf::ValueType::String);
        put_string(value);
        return *this;
    }
    MemoryGguf& u32(std::string_view key, uint32_t value) { return scalar(key, gguf::ValueType::U32, value); }
    MemoryGguf& i32(std::string_view key, int32_t value) { return scalar(key, gguf::ValueType::I32, value); }
    MemoryGguf& boolean(std::string_view key, bool value) {
        return scalar(key, gguf::ValueType::Bool, static_cast<uint8_t>(value));
    }
    MemoryGguf& texts(std::string_view key, std::span<const std::string> values) {
        begin_array(key, gguf::ValueType::String, values.size());
        for (const std::string& value : values) put_string(value);
        return *this;
    }
    MemoryGguf& floats(std::string_view key, std::span<const float> values) {
        begin_array(key, gguf::ValueType::F32, values.size());
        for (const float value : values) put(value);
        return *this;
    }
    MemoryGguf& bytes_array(std::string_view key, std::string_view values) {
        begin_array(key, gguf::ValueType::I8, values.size());
        body_ += values;
        return *this;
    }
    MemoryGguf& ints(std::string_view key, std::span<const int32_t> values) {
        begin_array(key, gguf::ValueType::I32, values.size());
        for (const int32_t value : values) put(value);
        return *this;
    }

    /// Valid until the next call that adds a key.
    std::span<const std::byte> bytes() {
        file_ = "GGUF";
        file_.append("\x03\0\0\0", 4).append(8, '\0');
        const uint64_t n_keys = n_keys_;
        file_.append(reinterpret_cast<const char*>(&n_keys), sizeof n_keys).append(body_);
        file_.append((32 - file_.size() % 32) % 32, '\0');
        return std::as_bytes(std::span(file_));
    }

    Result<gguf::File> parse() { return gguf::File::parse(bytes(), "memory", {}); }

  private:
    template <class T>
    void put(T value) {
        body_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void put_string(std::string_view value) {
        put(static_cast<uint64_t>(value.size()));
        body_ += value;
    }
    void begin(std::string_view key, gguf::ValueType type) {
        put_string(key);
        put(static_cast<uint32_t>(type));
        n_keys_++;
    }
    void begin_array(std::string_view key, gguf::ValueType element, size_t n) {
        begin(key, gguf::ValueType::Array);
        put(static_cast<uint32_t>(element));
        put(static_cast<uint64_t>(n));
    }
    template <class T>
    MemoryGguf& scalar(std::string_view key, gguf::ValueType type, T value) {
        begin(key, type);
        put(value);
        return *this;
    }

    std::string body_, file_;
    uint64_t n_keys_ = 0;
};

/// The arrays of a vocabulary, before they become a file.
struct TokenList {
    std::vector<std::string> texts;
    std::vector<float> scores;
    std::vector<int32_t> types;

    int32_t add(std::string text, float score, int32_t type) {
        texts.push_back(std::move(text));
        scores.push_back(score);
        types.push_back(type);
        return static_cast<int32_t>(texts.size() - 1);
    }

    /// <unk>, <s>, </s> and the 256 byte tokens: ids 0..258, byte b is 3 + b.
    static TokenList with_bytes() {
        TokenList list;
        list.add("<unk>", 0, 2);
        list.add("<s>", 0, 3);
        list.add("</s>", 0, 3);
        for (unsigned byte = 0; byte < 256; byte++) list.add(strf("<0x%02X>", byte), 0, 6);
        return list;
    }

    MemoryGguf gguf(std::string_view model = "llama") const {
        MemoryGguf file;
        file.text("general.architecture", "llama").text("tokenizer.ggml.model", model);
        file.texts("tokenizer.ggml.tokens", texts).floats("tokenizer.ggml.scores", scores);
        file.ints("tokenizer.ggml.token_type", types);
        return file;
    }
};

}  // namespace tessera::test
