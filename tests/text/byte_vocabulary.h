#pragma once
// Byte-level BPE vocabularies built in memory, for tests.
#include <string>
#include <string_view>
#include <vector>

#include "src/text/byte_letters.h"
#include "tests/text/memory_gguf.h"

namespace tessera::test {

struct ByteVocabulary {
    TokenList list;
    std::vector<std::string> merges;

    /// The 256 bytes: byte b is token b.
    static ByteVocabulary with_bytes() {
        ByteVocabulary v;
        for (const std::string& letter : text::byte_letters()) v.list.add(letter, 0, 1);
        return v;
    }

    static std::string spell(std::string_view bytes) {
        std::string spelling;
        for (const char byte : bytes) spelling += text::byte_letters()[static_cast<uint8_t>(byte)];
        return spelling;
    }

    int32_t add(std::string_view bytes, int32_t type = 1) { return list.add(spell(bytes), 0, type); }

    /// Adds a merge after those so far; its result becomes a token.
    int32_t merge(std::string_view left, std::string_view right) {
        merges.push_back(spell(left) + " " + spell(right));
        return add(std::string(left) + std::string(right));
    }

    MemoryGguf gguf(std::string_view pre = "llama-bpe") const {
        MemoryGguf file;
        file.text("general.architecture", "llama").text("tokenizer.ggml.model", "gpt2");
        if (!pre.empty()) file.text("tokenizer.ggml.pre", pre);
        file.texts("tokenizer.ggml.tokens", list.texts).ints("tokenizer.ggml.token_type", list.types);
        return file.texts("tokenizer.ggml.merges", merges);
    }
};

}  // namespace tessera::test
