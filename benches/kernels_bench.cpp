// Speed of the matrix products, one line a type: multiply-accumulates per second, weight bytes per second,
// and the share of the roofline, which is measured next to each; also packing, unpacking and quantization.
// One thread. The lists of types are the registry's and those of quants/pack.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ggml-like/backend.h"
#include "ggml-like/cpu/row_partition.h"
#include "ggml-like/cpu/tuning.h"
#include "quants/act_layout.h"
#include "quants/dispatch.h"
#include "quants/kernels/probe.h"
#include "quants/types.h"

namespace tessera::bench {
namespace {

constexpr int64_t kK = 2048;

struct Shape {
    int64_t n_tok;
    int64_t n_rows;  // a unit of work for prompts; for single tokens more than L2 holds
};
constexpr Shape kShapes[] = {{512, 64}, {16, 2048}, {8, 2048}, {4, 2048}, {2, 2048}, {1, 2048}};

struct Free {
    void operator()(void* p) const { std::free(p); }
};
template <class T>
std::unique_ptr<T[], Free> aligned(size_t n) {
    constexpr size_t kHuge = size_t{2} << 20;  // the engine's weights lie in such pages, too
    const size_t n_bytes = n * sizeof(T), align = n_bytes < kHuge ? 64 : kHuge;
    void* p = std::aligned_alloc(align, (n_bytes + align - 1) / align * align);
    if (align == kHuge) madvise(p, n_bytes, MADV_HUGEPAGE);
    return std::unique_ptr<T[], Free>(static_cast<T*>(p));
}

/// Random blocks whose weights are neither tiny nor huge, so that no subnormal slows a product down.
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

/// Cycles of this core per second at this moment: multiplications that depend on each other take three cycles
/// each on every processor measured so far. (Additions of constants do not: some processors make several per
/// cycle without executing them.)
double cycles_per_second() {
    constexpr int64_t kRounds = 4000, kUnrolled = 16, kLatency = 3;
    double best = 0;
    for (int i = 0; i < 30; i++) {
        const auto start = std::chrono::steady_clock::now();
        uint64_t product = 3;
        for (int64_t n = 0; n < kRounds; n++) {
#pragma GCC unroll 16
            for (int64_t j = 0; j < kUnrolled; j++) {
                product *= product;
                __asm__ volatile("" : "+r"(product));
            }
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = std::max(best, static_cast<double>(kRounds * kUnrolled * kLatency) / took.count());
    }
    return best;
}

/// Bytes that one core can read in a second out of n_bytes at p.
double read_bytes_per_second(const kernels::ProbeTable& probe, const void* p, size_t n_bytes) {
    n_bytes = n_bytes / 4096 * 4096;
    double best = 0;
    for (int i = 0; i < 10; i++) {
        const auto start = std::chrono::steady_clock::now();
        (i % 2 == 0 ? probe.read.side_by_side : probe.read.in_order)(p, n_bytes);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = std::max(best, static_cast<double>(n_bytes) / took.count());
    }
    return best;
}

/// Calls `body` once a round; the best time in seconds, since other programs may interrupt any round.
template <class Body>
double best_seconds(benchmark::State& state, const Body& body) {
    double best = 1e30;
    for (auto _ : state) {
        const auto start = std::chrono::steady_clock::now();
        body();
        benchmark::ClobberMemory();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = std::min(best, took.count());
    }
    return best;
}

/// One of a table's float products; packed weights are other numbers than the same bytes unpacked.
void run_matmul(benchmark::State& state, const kernels::IsaInfo& isa, const TypeInfo& info,
                kernels::MatmulFn matmul, Shape shape) {
    const auto row_bytes = static_cast<size_t>(info.row_bytes(kK));
    const size_t w_bytes = row_bytes * static_cast<size_t>(shape.n_rows);
    const auto w = aligned<uint8_t>(w_bytes);
    fill_weights(info, w_bytes, w.get());
    const auto x = aligned<float>(static_cast<size_t>(shape.n_tok * kK));
    for (int64_t i = 0; i < shape.n_tok * kK; i++)
        x[static_cast<size_t>(i)] = static_cast<float>(i % 17) * 0.1f - 0.8f;
    const auto y = aligned<float>(static_cast<size_t>(shape.n_tok * shape.n_rows));
    const auto scratch = aligned<float>(kernels::kScratchFloats);
    kernels::MatmulArgs args{w.get(), row_bytes,   shape.n_rows, kK,           x.get(),
                             kK,      shape.n_tok, y.get(),      shape.n_rows, scratch.get()};
    args.prefetch = kernels::choose_tuning().floats;

    const double roofline = roofline_macs_per_second(kernels::probe_table(isa.table->name)->fma);
    const double best = best_seconds(state, [&] { matmul(args); });
    const double macs = static_cast<double>(shape.n_tok * shape.n_rows * kK);
    state.counters["best_gmac_per_s"] = macs / best * 1e-9;
    state.counters["weight_gb_per_s"] = static_cast<double>(w_bytes) / best * 1e-9;
    state.counters["mac_per_cycle"] = macs / best / cycles_per_second();
    state.counters["of_fma_peak"] = macs / best / roofline;
}

// ---- packed weights

constexpr int64_t kPackedK = 4096;
constexpr int64_t kPackedRows = 256;  // of a call, as the engine's of several tokens
/// Rows of a call of a single token: with Q5_K and Q5_0 four streams of a quarter each would alias in L1
/// (quants/kernels/streams.h).
constexpr int64_t kTokenRows = 1536;
/// Rows of a thread's share of a small matrix.
constexpr int64_t kShareRows = 1024;
constexpr int64_t kGemmTokens[] = {5, 6, 8, 16, 32, 512};
constexpr int64_t kGemvTokens[] = {1, 2, 4};
constexpr int64_t kDramTokens[] = {1, 2, 4, 8, 16};
constexpr int64_t kDramBytes = int64_t{300} << 20;
constexpr int64_t kHeadDims[] = {64, 128};

/// One packed type: its row in the registry and its packed matrix.
struct Packed {
    const TypeInfo& info;
    const kernels::PackedKernels& functions;
    int64_t n_rows, n_k;
    size_t row_bytes = static_cast<size_t>(info.row_bytes(n_k));
    size_t bytes = row_bytes * static_cast<size_t>(n_rows);
    std::unique_ptr<uint8_t[], Free> w = aligned<uint8_t>(bytes);

    Packed(const kernels::IsaInfo& isa, const TypeInfo& type, int64_t rows, int64_t k = kPackedK)
        : info(type), functions(isa.table->packed[static_cast<uint32_t>(type.type)]), n_rows(rows), n_k(k) {
        // The packed bytes of a few groups, repeated.
        const size_t group_bytes = 8 * row_bytes;
        const auto file = aligned<uint8_t>(group_bytes);
        fill_weights(info, group_bytes, file.get());
        functions.pack(file.get(), row_bytes, 8, n_k, w.get());
        for (size_t at = group_bytes; at < bytes; at += group_bytes) {
            std::memcpy(w.get() + at, w.get(), group_bytes);
        }
    }
};

/// n_tok quantized tokens.
struct Tokens {
    int64_t n_tok, n_k, tile;
    std::vector<int8_t> q = std::vector<int8_t>(static_cast<size_t>(n_tok * n_k));
    std::vector<float> d = std::vector<float>(q.size() / 32), s = d;
    std::vector<int16_t> sum16 = std::vector<int16_t>(q.size() / 16),
                         sum8 = std::vector<int16_t>(q.size() / 8);

    Tokens(const kernels::IsaInfo& isa, int64_t n, int64_t k = kPackedK)
        : n_tok(n), n_k(k), tile(act_tile(*isa.table, n)) {
        std::vector<float> x(static_cast<size_t>(n_k));
        std::mt19937 rng(2);
        for (int64_t t = 0; t < n_tok; t++) {
            for (float& v : x) v = static_cast<float>(rng() % 2001) * 1e-3f - 1.0f;
            const auto [at, step] = act_place(*isa.table, {0, n}, t, n_k);
            isa.table->quantize_act(x.data(), n_k,
                                    {q.data() + 32 * at, d.data() + at, s.data() + at, sum16.data() + 2 * at,
                                     sum8.data() + 4 * at, step});
        }
    }
    kernels::ActView view() const {
        return {q.data(), d.data(), s.data(), sum16.data(), sum8.data(), n_k, n_k / 32, tile};
    }
};

/// fn(rows) for the rows of a matrix in calls of n rows.
struct CallsOf {
    int64_t n;
    template <class Fn>
    void operator()(const Packed& packed, Fn&& fn) const {
        for (int64_t row = 0; row < packed.n_rows; row += n) fn({0, row, std::min(n, packed.n_rows - row)});
    }
};

/// The same in the calls that a thread makes of its share (ThreadPool::run_ranges, coarse), one share after
/// the other.
struct CallsOfShares {
    template <class Fn>
    void operator()(const Packed& packed, Fn&& fn) const {
        const auto partition = cpu::partition_of(kShareRows);
        for (int64_t row = 0; row + kShareRows <= packed.n_rows; row += kShareRows) {
            for (int64_t unit = 0, n, left; (left = partition.n_units() - unit) > 0; unit += n) {
                n = left - left / 3;
                partition.each_range(unit, unit + n, cpu::max_rows(1),
                                     [&](cpu::RowRange rows, const cpu::RowRange&) {
                                         rows.row += row;
                                         fn(rows);
                                     });
            }
        }
    }
};

template <class Calls>
void run_packed(benchmark::State& state, const kernels::IsaInfo& isa, const TypeInfo& info, int64_t n_rows,
                const Calls& calls, int64_t n_tok) {
    const Packed packed(isa, info, n_rows);
    const Tokens tokens(isa, n_tok);
    const auto y = aligned<float>(static_cast<size_t>(n_rows * n_tok));
    const auto scratch = aligned<uint8_t>(kernels::kPackedScratchBytes);
    const kernels::ProbeTable* probe = kernels::probe_table(isa.table->name);
    const double of_int8 = roofline_macs_per_second(probe->int8);
    const double of_fma = roofline_macs_per_second(probe->fma);
    const double best = best_seconds(state, [&] {
        calls(packed, [&](const cpu::RowRange& rows) {
            packed.functions.matmul({packed.w.get() + static_cast<size_t>(rows.row) * packed.row_bytes,
                                     rows.n, kPackedK, tokens.view(), n_tok, y.get() + rows.row, n_rows,
                                     scratch.get(), kernels::choose_tuning().packed});
        });
    });
    const double macs = static_cast<double>(n_tok * n_rows * kPackedK);
    state.counters["best_gmac_per_s"] = macs / best * 1e-9;
    state.counters["weight_gb_per_s"] = static_cast<double>(packed.bytes) / best * 1e-9;
    state.counters["mac_per_cycle"] = macs / best / cycles_per_second();
    state.counters["of_int8_peak"] = macs / best / of_int8;
    state.counters["of_fma_peak"] = macs / best / of_fma;
    if (n_rows == kPackedRows) return;  // within the caches
    const double of_read = read_bytes_per_second(*probe, packed.w.get(), packed.bytes);
    state.counters["of_read"] = static_cast<double>(packed.bytes) / best / of_read;
}

/// Scores of a prompt's attention: a task's queries times the keys of a chunk, page by page and in the
/// caches, into rows of a chunk's length.
void run_scores(benchmark::State& state, const kernels::IsaInfo& isa, const TypeInfo& info,
                int64_t head_dim) {
    const Packed keys(isa, info, kKvChunk, head_dim);
    const Tokens queries(isa, cpu::kQueryRows, head_dim);
    const auto scores = aligned<float>(static_cast<size_t>(queries.n_tok * kKvChunk));
    const auto scratch = aligned<uint8_t>(kernels::kPackedScratchBytes);
    const double best = best_seconds(state, [&] {
        for (int64_t pos = 0; pos < kKvChunk; pos += kKvPage) {
            const uint8_t* page = keys.w.get() + static_cast<size_t>(pos) * keys.row_bytes;
            keys.functions.matmul({page, kKvPage, head_dim, queries.view(), queries.n_tok, scores.get() + pos,
                                   kKvChunk, scratch.get(), kernels::kCachedWeights, nullptr, page,
                                   kernels::choose_tuning().beside_to_l1});
        }
    });
    const double macs = static_cast<double>(queries.n_tok * kKvChunk * head_dim);
    state.counters["best_gmac_per_s"] = macs / best * 1e-9;
    state.counters["mac_per_cycle"] = macs / best / cycles_per_second();
}

void run_pack(benchmark::State& state, const kernels::IsaInfo& isa, const TypeInfo& info, bool unpack) {
    const Packed packed(isa, info, kPackedRows);
    const auto file = aligned<uint8_t>(packed.bytes);
    fill_weights(info, packed.bytes, file.get());
    const double best = best_seconds(state, [&] {
        for (size_t at = 0; at < packed.bytes; at += 8 * packed.row_bytes) {
            uint8_t *rows = file.get() + at, *group = packed.w.get() + at;
            if (unpack) {
                packed.functions.unpack(group, 8, kPackedK, rows, packed.row_bytes);
            } else {
                packed.functions.pack(rows, packed.row_bytes, 8, kPackedK, group);
            }
        }
    });
    state.counters["weight_gb_per_s"] = static_cast<double>(packed.bytes) / best * 1e-9;
}

void run_quantize_act(benchmark::State& state, const kernels::IsaInfo& isa) {
    Tokens tokens(isa, 1);
    const std::vector<float> x(static_cast<size_t>(kPackedK), 0.7f);
    const double best = best_seconds(state, [&] {
        isa.table->quantize_act(
            x.data(), kPackedK,
            {tokens.q.data(), tokens.d.data(), tokens.s.data(), tokens.sum16.data(), tokens.sum8.data()});
    });
    state.counters["gvalues_per_s"] = static_cast<double>(kPackedK) / best * 1e-9;
}

/// "what/isa/type/tok:n", without the parts that are empty or 0.
std::string row_name(std::string name, const kernels::IsaInfo& isa, std::string_view type, int64_t n_tok) {
    name += "/" + std::string(isa.name);
    if (!type.empty()) name += "/" + std::string(type);
    if (n_tok > 0) name += "/tok:" + std::to_string(n_tok);
    return name;
}

template <class Run>
void add_row(const std::string& name, const Run& run) {
    benchmark::RegisterBenchmark(name.c_str(), [run](benchmark::State& state) { run(state); });
}

void register_packed(const kernels::IsaInfo& isa, const TypeInfo& info) {
    const auto add = [&](const char* what, int64_t n_rows, auto calls, int64_t n_tok) {
        add_row(row_name(what, isa, info.name, n_tok), [=, &isa, &info](benchmark::State& state) {
            run_packed(state, isa, info, n_rows, calls, n_tok);
        });
    };
    const CallsOf calls{kPackedRows};
    for (const int64_t n_tok : kGemmTokens) add("packed_gemm", kPackedRows, calls, n_tok);
    for (const int64_t n_tok : kGemvTokens) add("packed_gemv", kPackedRows, calls, n_tok);
    const int64_t dram_rows = kDramBytes / info.row_bytes(kPackedK) / 8 * 8;
    for (const int64_t n_tok : kDramTokens) add("packed_dram", dram_rows, calls, n_tok);
    add("packed_token", dram_rows, CallsOf{kTokenRows}, 1);
    const int64_t share_rows = dram_rows / kShareRows * kShareRows;
    add("packed_shares", share_rows, CallsOfShares{}, 1);
    for (const int64_t head_dim : kHeadDims) {
        if (std::ranges::find(kKvTypes, info.type) == std::end(kKvTypes)) continue;
        add_row(row_name("packed_scores_" + std::to_string(head_dim), isa, info.name, 0),
                [&isa, &info, head_dim](benchmark::State& state) { run_scores(state, isa, info, head_dim); });
    }
    for (const bool unpack : {false, true}) {
        add_row(row_name(unpack ? "unpack" : "pack", isa, info.name, 0),
                [&isa, &info, unpack](benchmark::State& state) { run_pack(state, isa, info, unpack); });
    }
}

void register_all() {
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable || isa.name == "scalar") continue;  // the definition is not meant to be fast
        for (const Shape shape : kShapes) {
            for (const TypeInfo& info : all_types()) {
                if (info.role != TypeRole::Weight) continue;
                const auto add = [&](const char* what, kernels::MatmulFn matmul) {
                    if (!matmul) return;
                    add_row(row_name(what, isa, info.name, shape.n_tok),
                            [&isa, &info, matmul, shape](benchmark::State& state) {
                                run_matmul(state, isa, info, matmul, shape);
                            });
                };
                const auto id = static_cast<uint32_t>(info.type);
                add("matmul_f32", isa.table->matmul_f32[id]);
                add("matmul_packed_f32", isa.table->matmul_packed_f32[id]);
            }
        }
        for (const TypeInfo& info : all_types()) {
            if (isa.table->packed[static_cast<uint32_t>(info.type)].matmul) register_packed(isa, info);
        }
        add_row(row_name("quantize_act", isa, "", 0),
                [&isa](benchmark::State& state) { run_quantize_act(state, isa); });
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
