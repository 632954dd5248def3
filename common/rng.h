#pragma once
// Counter-based random numbers (Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC11). Draw i of a stream depends on (seed, stream, i) only: it is the same on every machine, for any
// batch.
#include <array>
#include <cstdint>

namespace tessera {

/// The ten-round Philox 4x32 bijection of `counter` under `key`.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class Rng {
  public:
    explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

    uint64_t next_u64();
    /// Uniform in [0, 1) with 53 random bits.
    double next_double();

    uint64_t seed() const { return seed_; }
    /// Draws taken so far; seek() makes the next draw number `n`.
    uint64_t position() const { return counter_; }
    void seek(uint64_t n) { counter_ = n; }

  private:
    uint64_t seed_, stream_, counter_ = 0;
};

/// A seed from the system's entropy, for "no seed given".
uint64_t random_seed();

}  // namespace tessera
