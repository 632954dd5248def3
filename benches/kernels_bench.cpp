// Speed of the float products, one line a type: multiply-accumulates a second, weight bytes a second, and the
// share of the FMA roofline, which is measured next to each. One thread. The list of types is the registry's.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "quants/dispatch.h"
#include "quants/kernels/probe.h"
#include "quants/types.h"

namespace tessera::bench {
namespace {

constexpr int64_t kK = 2048;

struct Shape {
    int64_t n_tok;
    int64_t n_rows;  // a unit of work for prompts; for single tokens enough to leave the inner caches
};
constexpr Shape kShapes[] = {{512, 64}, {16, 2048}, {1, 2048}};

struct Free {
    void operator()(void* p) const { std::free(p); }
};
template <class T>
std::unique_ptr<T[], Free> aligned(size_t n) {
    return std::unique_ptr<T[], Free>(
        static_cast<T*>(std::aligned_alloc(64, (n * sizeof(T) + 63) / 64 * 64)));
}

/// Random blocks whose weights are neither tiny nor huge, so that no subnormal slows the product down.
void fill_weights(const TypeInfo& info, size_t n_bytes, uint8_t* w) {
    std::mt19937 rng(1);
    const auto size = static_cast<size_t>(info.block_bytes);
    std::vector<float> weights(static_cast<size_t>(info.block));
    constexpr size_t kDistinct = 64;
    for (size_t at = 0; at < n_bytes; at += size) {
        if (at >= kDistinct * size) {
            std::memcpy(w + at, w + at - kDistinct * size, size);
            continue;
        }
        for (bool fit = false; !fit;) {
            for (size_t i = 0; i < size; i++) w[at + i] = static_cast<uint8_t>(rng());
            info.dequantize(w + at, weights.data(), info.block);
            float largest = 0;
            for (const float v : weights) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : 1e30f;
            fit = largest < 1e4f && largest > 1e-4f;
        }
    }
}

/// Multiply-accumulates of the FMA chain in a second, on this core and now.
double roofline_macs_per_second(const kernels::ProbeChain& chain) {
    constexpr int64_t kRounds = 200000;
    double best = 0;
    for (int i = 0; i < 30; i++) {
        const auto start = std::chrono::steady_clock::now();
        chain.run(kRounds);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = std::max(best, static_cast<double>(kRounds * chain.macs_per_round) / took.count());
    }
    return best;
}

void run_matmul(benchmark::State& state, const kernels::IsaInfo& isa, const TypeInfo& info, Shape shape) {
    const auto row_bytes = static_cast<size_t>(info.row_bytes(kK));
    const size_t w_bytes = row_bytes * static_cast<size_t>(shape.n_rows);
    const auto w = aligned<uint8_t>(w_bytes);
    fill_weights(info, w_bytes, w.get());
    const auto x = aligned<float>(static_cast<size_t>(shape.n_tok * kK));
    for (int64_t i = 0; i < shape.n_tok * kK; i++)
        x[static_cast<size_t>(i)] = static_cast<float>(i % 17) * 0.1f - 0.8f;
    const auto y = aligned<float>(static_cast<size_t>(shape.n_tok * shape.n_rows));
    const auto scratch = aligned<float>(kernels::kScratchFloats);
    const kernels::MatmulArgs args{w.get(), row_bytes,   shape.n_rows, kK,           x.get(),
                                   kK,      shape.n_tok, y.get(),      shape.n_rows, scratch.get()};
    const kernels::MatmulFn matmul = isa.table->matmul_f32[static_cast<uint32_t>(info.type)];

    const double roofline = roofline_macs_per_second(kernels::probe_table(isa.table->name)->fma);
    double best = 1e30;  // seconds: other programs may take the core away in any single run
    for (auto _ : state) {
        const auto start = std::chrono::steady_clock::now();
        matmul(args);
        benchmark::ClobberMemory();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = std::min(best, took.count());
    }
    const double macs = static_cast<double>(shape.n_tok * shape.n_rows * kK);
    state.counters["best_gmac_per_s"] = macs / best * 1e-9;
    state.counters["weight_gb_per_s"] = static_cast<double>(w_bytes) / best * 1e-9;
    state.counters["of_fma_peak"] = macs / best / roofline;
}

void register_all() {
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable || isa.name == "scalar") continue;  // the definition is not meant to be fast
        for (const Shape shape : kShapes) {
            for (const TypeInfo& info : all_types()) {
                if (info.role != TypeRole::Weight) continue;
                const std::string name = "matmul_f32/" + std::string(isa.name) + "/" +
                                         std::string(info.name) + "/tok:" + std::to_string(shape.n_tok);
                benchmark::RegisterBenchmark(name.c_str(), [&isa, &info, shape](benchmark::State& state) {
                    run_matmul(state, isa, info, shape);
                });
            }
        }
    }
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
    tessera::bench::register_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
