// Digests by their published definitions: FIPS 180-4, section 6.2, and the XXH64 algorithm description of the
// xxHash project. Bytes of an incomplete block are kept for the next call.
#include "common/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tessera {

namespace {

/// Cuts a stream into blocks of N bytes: `take` gets each whole one; the rest is kept in `rest`.
template <size_t N, class Take>
void cut_blocks(std::array<std::byte, N>& rest, uint64_t n_before, std::span<const std::byte> bytes,
                Take take) {
    if (const size_t n_rest = n_before % N; n_rest > 0) {
        const size_t n = std::min(N - n_rest, bytes.size());
        std::memcpy(rest.data() + n_rest, bytes.data(), n);
        bytes = bytes.subspan(n);
        if (n_rest + n < N) return;
        take(rest.data());
    }
    for (; bytes.size() >= N; bytes = bytes.subspan(N)) take(bytes.data());
    if (!bytes.empty()) std::memcpy(rest.data(), bytes.data(), bytes.size());
}

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87ull, kPrime2 = 0xc2b2ae3d27d4eb4full,
                   kPrime3 = 0x165667b19e3779f9ull, kPrime4 = 0x85ebca77c2b2ae63ull,
                   kPrime5 = 0x27d4eb2f165667c5ull;

uint64_t xxh_round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

}  // namespace

void Sha256::block(const std::byte* at) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = __builtin_bswap32(load<uint32_t>(at + 4 * i));
    for (int i = 16; i < 64; ++i) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (int i = 0; i < 64; ++i) {
        const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
        const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const uint32_t added[8] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state_[i] += added[i];
}

void Sha256::add(std::span<const std::byte> bytes) {
    cut_blocks(rest_, n_bytes_, bytes, [this](const std::byte* at) { block(at); });
    n_bytes_ += bytes.size();
}

std::array<std::byte, 32> Sha256::value() {
    const uint64_t n_bits = __builtin_bswap64(8 * n_bytes_);
    std::array<std::byte, 64> padding = {std::byte{0x80}};
    const size_t n_rest = n_bytes_ % 64;
    add({padding.data(), n_rest < 56 ? 56 - n_rest : 120 - n_rest});
    add(std::as_bytes(std::span(&n_bits, 1)));
    std::array<std::byte, 32> out;
    for (size_t i = 0; i < 8; ++i) {
        const uint32_t word = __builtin_bswap32(state_[i]);
        std::memcpy(out.data() + 4 * i, &word, 4);
    }
    return out;
}

void Xxh64::stripe(const std::byte* at) {
    for (size_t i = 0; i < 4; ++i) lanes_[i] = xxh_round(lanes_[i], load<uint64_t>(at + 8 * i));
}

void Xxh64::add(std::span<const std::byte> bytes) {
    cut_blocks(rest_, n_bytes_, bytes, [this](const std::byte* at) { stripe(at); });
    n_bytes_ += bytes.size();
}

uint64_t Xxh64::value() const {
    uint64_t h = kPrime5;
    if (n_bytes_ >= 32) {
        h = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
            std::rotl(lanes_[3], 18);
        for (const uint64_t lane : lanes_) h = (h ^ xxh_round(0, lane)) * kPrime1 + kPrime4;
    }
    h += n_bytes_;
    const std::byte *at = rest_.data(), *const end = at + n_bytes_ % 32;
    for (; end - at >= 8; at += 8)
        h = std::rotl(h ^ xxh_round(0, load<uint64_t>(at)), 27) * kPrime1 + kPrime4;
    if (end - at >= 4) {
        h = std::rotl(h ^ load<uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
        at += 4;
    }
    for (; at < end; ++at) h = std::rotl(h ^ static_cast<uint64_t>(*at) * kPrime5, 11) * kPrime1;
    h = (h ^ (h >> 33)) * kPrime2;
    h = (h ^ (h >> 29)) * kPrime3;
    return h ^ (h >> 32);
}

std::string to_hex(std::span<const std::byte> bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (const std::byte b : bytes) {
        out += kDigits[static_cast<unsigned>(b) >> 4];
        out += kDigits[static_cast<unsigned>(b) & 15];
    }
    return out;
}

std::string to_hex(uint64_t value) {
    const uint64_t swapped = __builtin_bswap64(value);
    return to_hex(std::as_bytes(std::span(&swapped, 1)));
}

}  // namespace tessera
