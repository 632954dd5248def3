// Random damage to well-formed files: the result is an error or opens, and a file that opens can be read in
// full. $TESSERA_MUTATIONS sets the number of mutants; the default suits a quick run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "common/rng.h"
#include "common/strings.h"
#include "ggml-like/gguf/file.h"
#include "tests/gguf/raw_gguf.h"

namespace tessera {
namespace {

using gguf::File;
using test::RawGguf;

int64_t n_mutations() {
    constexpr int64_t kDefault = 40000;
    const char* text = std::getenv("TESSERA_MUTATIONS");
    return text ? parse_int(text).value_or(kDefault) : kDefault;
}

std::string many_keys() {
    RawGguf raw;
    for (uint32_t i = 0; i < 300; i++) raw.u32("some.key." + std::to_string(i), i);
    return raw.f32("t", 8).bytes();
}

/// One change: a bit, a byte, a field set to a boundary value, a copied or a shifted piece.
void mutate_once(std::string& text, Rng& rng) {
    const auto below = [&rng](size_t n) { return static_cast<size_t>(rng.next_u64() % n); };
    const size_t at = below(text.size());
    static constexpr uint64_t kTelling[] = {
        0,          1,          2,          9,          0x7f,      0xff,           0x100,
        0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX, INT64_MAX, UINT64_MAX - 31};
    switch (below(6)) {
        case 0:
            text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
            break;
        case 1:
            text[at] = static_cast<char>(below(256));
            break;
        case 2: {
            const uint64_t field = kTelling[below(std::size(kTelling))];
            const size_t n = std::min(size_t{1} << below(4), text.size() - at);
            std::memcpy(text.data() + at, &field, n);
            break;
        }
        case 3: {
            const size_t from = below(text.size());
            const size_t n = below(std::min(text.size() - std::max(at, from), size_t{64}) + 1);
            std::memmove(text.data() + at, text.data() + from, n);
            break;
        }
        case 4:
            text.erase(at, below(16));
            break;
        default:
            text.insert(at, std::string(below(16), static_cast<char>(below(256))));
            break;
    }
    if (text.empty()) text = "G";
}

void run_mutants(const std::string& sound, int64_t count, uint64_t stream) {
    Rng rng(20240607, stream);
    int64_t n_opened = 0;
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        std::string text = sound;
        for (uint64_t n = 1 + rng.next_u64() % 4; n > 0; n--) mutate_once(text, rng);
        const test::ExactBytes bytes(text);
        const auto file = File::parse(bytes.span(), "mutant", {});
        if (file) {
            n_opened++;
            sum += test::touch(*file);
        } else {
            ASSERT_FALSE(file.error().message.empty());
            ASSERT_LT(file.error().message.size(), 1000u);
        }
    }
    // Both outcomes must have occurred; otherwise the damage is too slight or too severe to test anything.
    EXPECT_GT(n_opened, count / 100);
    EXPECT_LT(n_opened, count - count / 100);
    EXPECT_NE(sum, 0u);
}

TEST(GgufMutation, EveryType) { run_mutants(test::every_type_bytes(), n_mutations() * 9 / 10, 1); }

TEST(GgufMutation, ManyKeys) { run_mutants(many_keys(), n_mutations() / 10, 2); }

TEST(GgufMutation, Packed) { run_mutants(test::packed_bytes(), n_mutations() / 4, 3); }

}  // namespace
}  // namespace tessera
