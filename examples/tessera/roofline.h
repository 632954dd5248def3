#pragma once
// What the machine can do at most, measured with the threads that also run the model: bytes read from memory,
// int8 products and float products a second.
#include <cstdint>
#include <memory>

#include "common/arena.h"
#include "common/threads.h"
#include "examples/tessera/json.h"
#include "quants/kernels/probe.h"

namespace tessera {

class Roofline {
  public:
    /// `pool` outlives the roofline. Takes a buffer of 512 MiB, or twice the last cache where that is more,
    /// but at most a quarter of the free memory. Errors: no memory.
    static Result<std::unique_ptr<Roofline>> create(ThreadPool& pool, const char* isa_name);

    /// One measurement of each, some 20 ms apiece. The best of all count: whatever disturbs a measurement
    /// makes it lower.
    void sample();

    double read_gb_per_s() const { return read_; }    ///< 10^9 bytes
    double int8_gmac_per_s() const { return int8_; }  ///< 10^9 multiply-accumulates
    double fma_gmac_per_s() const { return fma_; }
    size_t buffer_bytes() const { return buffer_.size(); }

  private:
    Roofline(ThreadPool& pool, const kernels::ProbeTable& probe) : pool_(pool), probe_(probe) {}
    double time_read();
    double time_chain(const kernels::ProbeChain& chain, int64_t n_rounds);
    double chain_rate(const kernels::ProbeChain& chain, int64_t& n_rounds);

    ThreadPool& pool_;
    const kernels::ProbeTable& probe_;
    Buffer buffer_;
    int64_t int8_rounds_ = 1 << 12, fma_rounds_ = 1 << 12;
    double read_ = 0, int8_ = 0, fma_ = 0;
};

/// The fields of `roofline` in the reports of bench and info.
Json roofline_json(const Roofline& roofline);

}  // namespace tessera
