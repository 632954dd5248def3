#pragma once
// The machine's peak on the threads that also run the model: memory bandwidth, int8 products and float
// products per second.
#include <cstdint>
#include <memory>

#include "common/arena.h"
#include "common/threads.h"
#include "examples/tessera/json.h"
#include "quants/kernels/probe.h"

namespace tessera {

class Roofline {
  public:
    /// Of one sample, in the units of the getters below.
    struct Rates {
        double read, int8, fma;
    };

    /// `pool` outlives the roofline. Allocates a buffer of 512 MiB, or twice the L3 cache if that is more,
    /// but at most a quarter of the free memory. Errors: no memory.
    static Result<std::unique_ptr<Roofline>> create(ThreadPool& pool, const char* isa_name);

    /// Measures each rate once, which takes 20 to 50 ms each.
    Rates sample();

    // The best of all samples, since disturbances only lower a measurement.
    double read_gb_per_s() const { return best_.read; }    ///< 10^9 bytes
    double int8_gmac_per_s() const { return best_.int8; }  ///< 10^9 multiply-accumulates
    double fma_gmac_per_s() const { return best_.fma; }
    size_t buffer_bytes() const { return buffer_.size(); }

  private:
    Roofline(ThreadPool& pool, const kernels::ProbeTable& probe) : pool_(pool), probe_(probe) {}
    double time_read();
    void choose_read();
    double read_rate();
    double time_chain(const kernels::ProbeChain& chain, int64_t n_rounds);
    double chain_rate(const kernels::ProbeChain& chain, int64_t& n_rounds);

    ThreadPool& pool_;
    const kernels::ProbeTable& probe_;
    Buffer buffer_;
    void (*read_)(const void* p, size_t n_bytes) = probe_.read.side_by_side;
    int64_t int8_rounds_ = 1 << 12, fma_rounds_ = 1 << 12;
    Rates best_{};
};

/// The fields of `roofline` in the reports of bench and info.
Json roofline_json(const Roofline& roofline);

}  // namespace tessera
