#pragma once
// A vocabulary in memory for the samplers that look at text.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/text/tokenizer.h"
#include "tests/text/memory_gguf.h"

namespace tessera::sample::test {

/// The bytes, then the given pieces: token i of them is id first + i. </s> (id 2) ends a text.
struct Vocabulary {
    explicit Vocabulary(const std::vector<std::string>& pieces) {
        auto list = tessera::test::TokenList::with_bytes();
        for (const std::string& piece : pieces) list.add(piece, -1, 1);
        n_vocab = static_cast<int32_t>(list.texts.size());
        auto file = list.gguf();
        file.u32("tokenizer.ggml.eos_token_id", 2);
        auto parsed = file.parse();
        EXPECT_TRUE(parsed) << parsed.error().message;
        auto loaded = text::Tokenizer::load(*parsed);
        EXPECT_TRUE(loaded) << loaded.error().message;
        tokenizer = *loaded;
    }

    static constexpr int32_t first = 259, end = 2;
    static constexpr int32_t byte(char c) { return 3 + static_cast<unsigned char>(c); }

    int32_t n_vocab = 0;
    std::shared_ptr<const text::Tokenizer> tokenizer;
};

}  // namespace tessera::sample::test
