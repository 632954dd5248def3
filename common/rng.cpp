// Philox 4x32-10 written from the SC11 paper, and the stream over it: counter words 0 and 1 are the draw's
// number, words 2 and 3 the stream, the key is the seed. The constants are the paper's multipliers and Weyl
// increments.
#include "common/rng.h"

#include <sys/random.h>
#include <unistd.h>

#include <chrono>

namespace tessera {

namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u;  // golden ratio
constexpr uint32_t kWeyl1 = 0xBB67AE85u;  // sqrt(3) - 1

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
        const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
        counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
                   low(product0)};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

uint64_t Rng::next_u64() {
    const auto words =
        philox4x32({low(counter_), high(counter_), low(stream_), high(stream_)}, {low(seed_), high(seed_)});
    counter_++;
    return words[0] | uint64_t{words[1]} << 32;
}

double Rng::next_double() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }

uint64_t random_seed() {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed)) return seed;
    // Some sandboxes refuse entropy; a seed only has to differ between runs.
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    return Rng(static_cast<uint64_t>(now), static_cast<uint64_t>(getpid())).next_u64();
}

}  // namespace tessera
