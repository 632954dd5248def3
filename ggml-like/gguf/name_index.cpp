// The keyed hash behind NameIndex and the sizing of its table: the load is at most 3/4, so that every probe
// ends.
#include "ggml-like/gguf/name_index.h"

#include <bit>
#include <cstring>

#include "common/rng.h"

namespace tessera::gguf {

namespace {

struct SipState {
    uint64_t v0, v1, v2, v3;

    void round() {
        v0 += v1;
        v2 += v3;
        v1 = std::rotl(v1, 13) ^ v0;
        v3 = std::rotl(v3, 16) ^ v2;
        v0 = std::rotl(v0, 32) + v3;
        v2 += v1;
        v1 = std::rotl(v1, 17) ^ v2;
        v3 = std::rotl(v3, 21) ^ v0;
        v2 = std::rotl(v2, 32);
    }

    void absorb(uint64_t word) {
        v3 ^= word;
        round();
        round();
        v0 ^= word;
    }
};

}  // namespace

uint64_t siphash(std::array<uint64_t, 2> key, std::string_view text) {
    SipState state{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                   key[1] ^ 0x7465646279746573u};
    const size_t whole = text.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word;
        std::memcpy(&word, text.data() + i, 8);
        state.absorb(word);
    }
    uint64_t last = static_cast<uint64_t>(text.size()) << 56;
    for (size_t i = whole; i < text.size(); i++) {
        last |= static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << (8 * (i - whole));
    }
    state.absorb(last);
    state.v2 ^= 0xff;
    for (int i = 0; i < 4; i++) state.round();
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

NameIndex::NameIndex(uint64_t n_max)
    : key_{random_seed(), random_seed()}, slots_(std::bit_ceil(n_max + n_max / 3 + 1), kNone) {}

}  // namespace tessera::gguf
