// Speed of float products by our kernels and by OpenBLAS, in multiply-accumulates per second of one thread:
// in the units of CpuBackend, and by OpenBLAS also as one call for the whole matrix. The time is the thread's
// CPU time, the best of several runs, so that other programs disturb it little.
//   blas_bench [n_in [most tokens]]        e.g. 256 128 under an emulator
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ggml-like/blas/openblas.h"
#include "ggml-like/blas/products.h"
#include "ggml-like/cpu/tuning.h"
#include "quants/dispatch.h"

namespace tessera::bench {
namespace {

constexpr int64_t kOut = 2048, kRuns = 5;
constexpr int64_t kTokens[] = {32, 64, 128, 256, 512};
/// Weights as they are in a file, and floats as they are packed at load.
constexpr struct {
    Type type;
    Layout layout;
} kWeights[] = {{Type::F32, Layout::Rows},    {Type::F32, Layout::Packed}, {Type::F16, Layout::Packed},
                {Type::BF16, Layout::Packed}, {Type::Q8_0, Layout::Rows},  {Type::Q4_K, Layout::Rows}};

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<float> random_floats(int64_t n) {
    std::mt19937 rng(1);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = static_cast<float>(rng() % 1024) / 512 - 1;
    return x;
}

/// A product of n_tok tokens and all rows of a matrix.
struct Task {
    Weight w;
    const float* x;  // [n_tok, n_in]
    float* y;        // [n_tok, kOut]
    float* scratch;
    int64_t n_tok;

    kernels::MatmulArgs part(int64_t row, int64_t n_rows, int64_t tok, int64_t n) const {
        kernels::MatmulArgs args{};
        args.w = w.row(row);
        args.w_stride = w.row_bytes;
        args.n_rows = n_rows;
        args.n_k = w.n_in;
        args.x = x + tok * w.n_in;
        args.x_stride = w.n_in;
        args.n_tok = n;
        args.y = y + tok * kOut + row;
        args.y_stride = kOut;
        args.scratch = scratch;
        return args;
    }

    /// Giga multiply-accumulates per second of run().
    template <class Run>
    double speed(Run run) const {
        double best = 1e9;
        for (int64_t i = 0; i < kRuns; ++i) {
            const double start = cpu_seconds();
            run();
            best = std::min(best, cpu_seconds() - start);
        }
        return 1e-9 * static_cast<double>(n_tok * kOut * w.n_in) / best;
    }

    /// The same for the units of CpuBackend, each computed by multiply().
    template <class Multiply>
    double speed_of_units(Multiply multiply) const {
        const int64_t n_rows = cpu::max_rows(n_tok);
        return speed([&] {
            for (int64_t row = 0; row < kOut; row += n_rows)
                for (int64_t tok = 0; tok < n_tok; tok += cpu::kTokBlock)
                    multiply(
                        part(row, std::min(n_rows, kOut - row), tok, std::min(cpu::kTokBlock, n_tok - tok)));
        });
    }
};

void print_type(Type type, Layout layout, int64_t n_in, int64_t max_tok, const kernels::KernelTable& table,
                const cpu::FloatProducts& products, const blas::OpenBlas& library) {
    const TypeInfo& info = type_info(type);
    const auto id = static_cast<uint32_t>(type);
    const auto row_bytes = static_cast<size_t>(info.row_bytes(n_in));
    const std::vector<float> values = random_floats(kOut * n_in), x = random_floats(512 * n_in);
    std::vector<std::byte> rows(row_bytes * kOut), packed(rows.size());
    info.quantize(values.data(), nullptr, rows.data(), kOut * n_in);
    if (layout == Layout::Packed)
        for (size_t row = 0; row < kOut; row += kernels::kGroupRows)
            table.packed[id].pack(rows.data() + row * row_bytes, row_bytes, kernels::kGroupRows, n_in,
                                  packed.data() + row * row_bytes);
    const bool is_packed = layout == Layout::Packed;
    std::vector<float> y(512 * kOut), scratch(kernels::kPackedScratchBytes / sizeof(float) + 16);
    void* aligned = scratch.data();
    size_t room = scratch.size() * sizeof(float);
    std::align(64, kernels::kPackedScratchBytes, aligned, room);
    const cpu::VecTable& vec = *cpu::vec_table(table.name);
    for (const int64_t n_tok : kTokens) {
        if (n_tok > max_tok) break;
        Task task{{}, x.data(), y.data(), static_cast<float*>(aligned), n_tok};
        task.w = {.type = type,
                  .layout = layout,
                  .n_out = kOut,
                  .n_in = n_in,
                  .data = is_packed ? packed.data() : rows.data(),
                  .row_bytes = row_bytes};
        const auto kernel = (is_packed ? table.matmul_packed_f32 : table.matmul_f32)[id];
        const double own = task.speed_of_units(kernel);
        const double units =
            task.speed_of_units([&](const auto& args) { products.multiply(task.w, args, vec); });
        const double whole = task.speed([&] {
            library.multiply({values.data(), n_in, kOut, n_in, x.data(), n_in, n_tok, y.data(), kOut, false});
        });
        std::printf("%-5s %-6s %6lld %10.3g %10.3g %10.3g\n", std::string(info.name).c_str(),
                    is_packed ? "packed" : "rows", static_cast<long long>(n_tok), own, units, whole);
        std::fflush(stdout);
    }
}

int run(int64_t n_in, int64_t max_tok) {
    const auto library = blas::open_blas();
    const auto products = blas::float_products();
    const auto isa = kernels::choose_isa_from_environment();
    if (!library || !products || !isa) {
        std::fprintf(stderr, "blas_bench: %s\n", (isa ? library.error() : isa.error()).message.c_str());
        return 1;
    }
    std::printf("OpenBLAS %s, %s; ours: %s; [%lld, %lld], GMAC/s of one thread\n",
                (*library)->version.c_str(), (*library)->core.c_str(), (*isa)->table->name,
                static_cast<long long>(kOut), static_cast<long long>(n_in));
    std::printf("%-5s %-6s %6s %10s %10s %10s\n", "type", "layout", "tokens", "ours", "OpenBLAS", "one call");
    for (const auto& [type, layout] : kWeights)
        print_type(type, layout, n_in, max_tok, *(*isa)->table, *products, **library);
    return 0;
}

/// The argument as a multiple of `step` up to `most`, or `otherwise` where it is absent; 0 if it is none.
int64_t argument(int argc, char** argv, int at, int64_t step, int64_t most, int64_t otherwise) {
    const int64_t value = argc > at ? std::strtoll(argv[at], nullptr, 10) : otherwise;
    if (value >= step && value <= most && value % step == 0) return value;
    std::fprintf(stderr, "argument %d: expected a multiple of %lld up to %lld, found '%s'\n", at,
                 static_cast<long long>(step), static_cast<long long>(most), argv[at]);
    return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
    const int64_t n_in = tessera::bench::argument(argc, argv, 1, 256, 65536, 2048);
    const int64_t max_tok = tessera::bench::argument(argc, argv, 2, 32, 512, 512);
    return n_in > 0 && max_tok > 0 ? tessera::bench::run(n_in, max_tok) : 2;
}
