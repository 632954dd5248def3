// Measures the machine with the probes of the chosen instruction set (quants/kernels/probe.h). Assumes that
// nothing else runs in the pool at the same time.
#include "examples/tessera/roofline.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "common/cpu.h"
#include "examples/tessera/model_loading.h"

namespace tessera {

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kUnitBytes = 4 * kMiB;  // of reading, small enough to balance the threads
constexpr double kChainSeconds = 0.02;
// About the time of a few tokens: other users of the memory come and go within milliseconds.
constexpr double kReadSeconds = 0.05;
constexpr int kReadTrials = 3;  // of each read pattern

/// Free memory as the system estimates it, or half of all memory.
size_t available_bytes() {
    std::ifstream info("/proc/meminfo");
    const size_t total = cpu_topology().memory_bytes;
    std::string name;
    size_t kib = 0;
    while (info >> name >> kib) {
        if (name == "MemAvailable:") return total > 0 ? std::min(total, kib * 1024) : kib * 1024;
        info.ignore(64, '\n');
    }
    return total / 2;
}

size_t choose_buffer_bytes() {
    const size_t wanted = std::max(512 * kMiB, 2 * cpu_topology().l3_bytes);
    const size_t most = std::max(available_bytes() / 4, kUnitBytes);
    return std::min(wanted, most) / kUnitBytes * kUnitBytes;
}

}  // namespace

Result<std::unique_ptr<Roofline>> Roofline::create(ThreadPool& pool, const char* isa_name) {
    const kernels::ProbeTable* probe = kernels::probe_table(isa_name);
    if (!probe) return fail(ErrorCode::Internal, "no probes for the instruction set '%s'", isa_name);
    std::unique_ptr<Roofline> roofline(new Roofline(pool, *probe));
    TSR_TRY(roofline->buffer_, Buffer::create(choose_buffer_bytes(), "the buffer of the memory measurement"));
    // Untouched pages would all map the same page of zeros.
    Buffer& buffer = roofline->buffer_;
    pool.run(static_cast<int64_t>(buffer.size() / kUnitBytes), [&](int64_t unit, int) {
        std::memset(buffer.data() + static_cast<size_t>(unit) * kUnitBytes, 0x5a, kUnitBytes);
    });
    roofline->choose_read();
    return roofline;
}

double Roofline::time_read() {
    const double start = now_seconds();
    pool_.run(static_cast<int64_t>(buffer_.size() / kUnitBytes), [&](int64_t unit, int) {
        read_(buffer_.data() + static_cast<size_t>(unit) * kUnitBytes, kUnitBytes);
    });
    return now_seconds() - start;
}

/// Chooses the faster of the two read patterns.
void Roofline::choose_read() {
    const auto best = [this](auto read) {
        read_ = read;
        double seconds = time_read();
        for (int i = 1; i < kReadTrials; i++) seconds = std::min(seconds, time_read());
        return seconds;
    };
    const bool by_side = best(probe_.read.side_by_side) < best(probe_.read.in_order);
    read_ = by_side ? probe_.read.side_by_side : probe_.read.in_order;
}

double Roofline::time_chain(const kernels::ProbeChain& chain, int64_t n_rounds) {
    const double start = now_seconds();
    pool_.run(pool_.n_threads(), [&](int64_t, int) { chain.run(n_rounds); });
    return now_seconds() - start;
}

/// 10^9 multiply-accumulates per second; the number of rounds grows until a measurement takes long enough.
double Roofline::chain_rate(const kernels::ProbeChain& chain, int64_t& n_rounds) {
    double seconds = time_chain(chain, n_rounds);
    while (seconds < kChainSeconds / 2) {
        n_rounds *= 2;
        seconds = time_chain(chain, n_rounds);
    }
    const auto macs = static_cast<double>(chain.macs_per_round * n_rounds * pool_.n_threads());
    return macs / seconds / 1e9;
}

/// 10^9 bytes per second over kReadSeconds; the best pass counts for read_gb_per_s.
double Roofline::read_rate() {
    const auto gigabytes = static_cast<double>(buffer_.size()) / 1e9;
    double seconds = 0;
    int n_passes = 0;
    for (; seconds < kReadSeconds; n_passes++) {
        const double pass = time_read();
        best_.read = std::max(best_.read, gigabytes / pass);
        seconds += pass;
    }
    return n_passes * gigabytes / seconds;
}

Roofline::Rates Roofline::sample() {
    const Rates now = {.read = read_rate(),
                       .int8 = chain_rate(probe_.int8, int8_rounds_),
                       .fma = chain_rate(probe_.fma, fma_rounds_)};
    best_.int8 = std::max(best_.int8, now.int8);
    best_.fma = std::max(best_.fma, now.fma);
    return now;
}

Json roofline_json(const Roofline& roofline) {
    return {{"read_gb_per_s", rounded(roofline.read_gb_per_s())},
            {"int8_gmac_per_s", rounded(roofline.int8_gmac_per_s())},
            {"fma_gmac_per_s", rounded(roofline.fma_gmac_per_s())},
            {"buffer_bytes", roofline.buffer_bytes()}};
}

}  // namespace tessera
