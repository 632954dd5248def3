#pragma once
// Tokenizers of vocabulary files; an error fails the test.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ggml-like/gguf/file.h"
#include "src/text/tokenizer.h"

namespace tessera::test {

using Ids = std::vector<int32_t>;

/// Null when it fails.
inline std::shared_ptr<const text::Tokenizer> load(const std::string& path) {
    const auto file = gguf::File::open(path);
    if (!file) {
        ADD_FAILURE() << file.error().message;
        return nullptr;
    }
    auto tokenizer = text::Tokenizer::load(*file);
    if (!tokenizer) {
        ADD_FAILURE() << tokenizer.error().message;
        return nullptr;
    }
    return std::move(*tokenizer);
}

/// Without bos and eos.
inline Ids encode(const text::Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
    auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
    if (!ids) {
        ADD_FAILURE() << ids.error().message;
        return {};
    }
    return std::move(*ids);
}

}  // namespace tessera::test
