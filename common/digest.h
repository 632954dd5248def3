#pragma once
// Two standard digests: SHA-256 (FIPS 180-4), and XXH64 with seed 0, which is many times faster but no
// protection against an adversary. common/hash.h has the checksum of our own file formats.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera {

/// The value depends on all bytes and their order, not on the sizes of the pieces. value() may be called
/// once.
class Sha256 {
  public:
    void add(std::span<const std::byte> bytes);
    std::array<std::byte, 32> value();

  private:
    void block(const std::byte* at);

    std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<std::byte, 64> rest_;
    uint64_t n_bytes_ = 0;
};

class Xxh64 {
  public:
    void add(std::span<const std::byte> bytes);
    uint64_t value() const;

  private:
    void stripe(const std::byte* at);

    std::array<uint64_t, 4> lanes_ = {0x60ea27eeadc0b5d6ull, 0xc2b2ae3d27d4eb4full, 0, 0x61c8864e7a143579ull};
    std::array<std::byte, 32> rest_;
    uint64_t n_bytes_ = 0;
};

/// "e3b0c442...", two digits a byte.
std::string to_hex(std::span<const std::byte> bytes);
/// The same for a number, the highest byte first.
std::string to_hex(uint64_t value);

}  // namespace tessera
