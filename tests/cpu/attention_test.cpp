// The attention verb against a plain computation in double: windows, soft-caps, several sequences side by
// side, and every way of cutting the same tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "common/rng.h"
#include "ggml-like/cpu/backend.h"
#include "quants/dispatch.h"

namespace tessera {
namespace {

constexpr int64_t kHead = 4, kHeadKv = 2, kDim = 32, kQ = kHead * kDim, kKv = kHeadKv * kDim;

/// One layer's cache of one sequence, filled through the qkv verb with identity weights: its rows are the
/// keys.
struct Cache {
    KvLayer layer;
    std::vector<std::vector<float>> memory;
    std::vector<std::byte*> pages;

    Cache(Type type, int64_t n_pos) {
        const auto bytes = static_cast<size_t>(kHeadKv * kKvPage * type_info(type).row_bytes(kDim));
        layer = {type, type, 0, (bytes + 63) / 64 * 64, kHeadKv, kDim};
        for (int64_t i = 0; i < (n_pos + kKvPage - 1) / kKvPage; ++i) {
            memory.emplace_back(2 * layer.v_offset / sizeof(float));
            pages.push_back(reinterpret_cast<std::byte*>(memory.back().data()));
        }
    }
};

std::vector<float> identity(int64_t n) {
    std::vector<float> w(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n; ++i) w[static_cast<size_t>(i * n + i)] = 1;
    return w;
}

Weight matrix(const std::vector<float>& w, int64_t n_out, int64_t n_in) {
    return {.type = Type::F32,
            .n_out = n_out,
            .n_in = n_in,
            .data = reinterpret_cast<const std::byte*>(w.data()),
            .row_bytes = static_cast<size_t>(n_in) * 4};
}

std::vector<float> random_rows(uint64_t seed, int64_t n) {
    Rng rng(seed);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = static_cast<float>(4 * rng.next_double() - 2);
    return x;
}

class Attention : public testing::Test {
  protected:
    static constexpr int64_t kMaxTok = 700;
    ThreadPool pool_{2};
    std::unique_ptr<CpuBackend> backend_ = std::move(*CpuBackend::create(
        pool_, *(*kernels::choose_isa(""))->table,
        {.max_tok = kMaxTok, .max_rows = kMaxTok, .n_head = kHead, .n_head_kv = kHeadKv, .head_dim = kDim}));
    const std::vector<float> identity_ = identity(kQ);
    std::vector<float> keys_take_;    // [kKv, kQ]: keys are the first kKv inputs
    std::vector<float> values_take_;  // values the last

    Attention() : keys_take_(static_cast<size_t>(kKv * kQ)), values_take_(keys_take_.size()) {
        for (int64_t i = 0; i < kKv; ++i) {
            keys_take_[static_cast<size_t>(i * kQ + i)] = 1;
            values_take_[static_cast<size_t>(i * kQ + kQ - kKv + i)] = 1;
        }
    }

    /// Runs qkv and attend over the segments' tokens x [n, kQ]; returns [n, kQ].
    std::vector<float> run(const std::vector<float>& x, std::span<const Segment> segments, AttendArgs args) {
        std::vector<float> in = x, q(x.size()), y(x.size());
        Act in_act{.name = "x", .dim = kQ, .f32 = in.data()}, q_act{.name = "q", .dim = kQ, .f32 = q.data()};
        Act y_act{.name = "y", .dim = kQ, .f32 = y.data()};
        backend_->qkv(in_act,
                      {.wq = matrix(identity_, kQ, kQ),
                       .wk = matrix(keys_take_, kKv, kQ),
                       .wv = matrix(values_take_, kKv, kQ),
                       .bq = {},
                       .bk = {},
                       .bv = {},
                       .q_norm = {},
                       .k_norm = {},
                       .n_head = kHead,
                       .kv = args.kv},
                      segments, q_act);
        backend_->attend(q_act, args, segments, y_act);
        return y;
    }

    /// One sequence from position 0 on, cut into passes of `chunk` tokens.
    std::vector<float> run_cut(const std::vector<float>& x, Type type, int64_t chunk, AttendArgs args) {
        const int64_t n = static_cast<int64_t>(x.size()) / kQ;
        Cache cache(type, n);
        args.kv = cache.layer;
        std::vector<float> y;
        for (int64_t at = 0; at < n; at += chunk) {
            const int64_t count = std::min(chunk, n - at);
            const Segment segment{cache.pages.data(), 0, count, at};
            const std::vector<float> part =
                run({x.begin() + at * kQ, x.begin() + (at + count) * kQ}, {&segment, 1}, args);
            y.insert(y.end(), part.begin(), part.end());
        }
        return y;
    }
};

std::vector<double> reference(const std::vector<float>& x, const AttendArgs& args) {
    const int64_t n = static_cast<int64_t>(x.size()) / kQ;
    const auto at = [&](int64_t t, int64_t i) {
        return static_cast<double>(x[static_cast<size_t>(t * kQ + i)]);
    };
    std::vector<double> y(x.size());
    for (int64_t t = 0; t < n; ++t)
        for (int64_t h = 0; h < kHead; ++h) {
            const int64_t kv = h / (kHead / kHeadKv);
            const int64_t first = args.window > 0 ? std::max<int64_t>(0, t - args.window + 1) : 0;
            std::vector<double> p(static_cast<size_t>(t + 1));
            double top = -1e30, sum = 0;
            for (int64_t k = first; k <= t; ++k) {
                double z = 0;
                for (int64_t d = 0; d < kDim; ++d) z += at(t, h * kDim + d) * at(k, kv * kDim + d);
                z *= static_cast<double>(args.scale);
                if (args.softcap > 0)
                    z = static_cast<double>(args.softcap) * std::tanh(z / static_cast<double>(args.softcap));
                p[static_cast<size_t>(k)] = z;
                top = std::max(top, z);
            }
            for (int64_t k = first; k <= t; ++k)
                sum += p[static_cast<size_t>(k)] = std::exp(p[static_cast<size_t>(k)] - top);
            for (int64_t d = 0; d < kDim; ++d) {
                double o = 0;
                for (int64_t k = first; k <= t; ++k)
                    o += p[static_cast<size_t>(k)] * at(k, kQ - kKv + kv * kDim + d);
                y[static_cast<size_t>(t * kQ + h * kDim + d)] = o / sum;
            }
        }
    return y;
}

double worst(const std::vector<float>& a, const std::vector<double>& b) {
    double w = 0;
    for (size_t i = 0; i < a.size(); ++i) w = std::max(w, std::abs(static_cast<double>(a[i]) - b[i]));
    return w;
}

const AttendArgs kCases[] = {
    {.kv = {}, .n_head = kHead, .scale = 0.2f},
    {.kv = {}, .n_head = kHead, .scale = 0.2f, .softcap = 2},
    {.kv = {}, .n_head = kHead, .scale = 0.2f, .window = 1},
    {.kv = {}, .n_head = kHead, .scale = 0.2f, .window = 100},
    {.kv = {}, .n_head = kHead, .scale = 0.2f, .window = 300},
};

TEST_F(Attention, AgreesWithPlainComputation) {
    const std::vector<float> x = random_rows(1, 600 * kQ);
    for (const AttendArgs& args : kCases) {
        const std::vector<double> expected = reference(x, args);
        EXPECT_LT(worst(run_cut(x, Type::F32, 600, args), expected), 1e-5) << args.window;
        EXPECT_LT(worst(run_cut(x, Type::F16, 600, args), expected), 1e-2) << args.window;
        EXPECT_LT(worst(run_cut(x, Type::Q8_0, 600, args), expected), 6e-2) << args.window;
    }
}

TEST_F(Attention, CutsDoNotMatter) {
    const std::vector<float> x = random_rows(2, 600 * kQ);
    for (const AttendArgs& args : kCases)
        for (const Type type : kKvTypes) {
            const std::vector<float> whole = run_cut(x, type, 600, args);
            for (const int64_t chunk : {1, 3, 4, 5, 64, 100, 257})
                EXPECT_EQ(0,
                          std::memcmp(whole.data(), run_cut(x, type, chunk, args).data(), whole.size() * 4))
                    << type_info(type).name << " chunk " << chunk << " window " << args.window;
        }
}

/// Sequences of different lengths in one batch get what each gets alone, decoding and prefilling side by
/// side.
TEST_F(Attention, SequencesDoNotMeet) {
    const int64_t starts[] = {300, 0, 520, 70}, counts[] = {1, 20, 1, 1};
    for (const bool few : {true, false})
        for (const Type type : kKvTypes) {
            std::vector<Cache> caches;
            std::vector<Segment> segments;
            std::vector<float> batch, expected;
            int64_t row = 0;
            for (int i = 0; i < 4; ++i) {
                if (few && counts[i] > 1) continue;
                const std::vector<float> x =
                    random_rows(static_cast<uint64_t>(10 + i), (starts[i] + counts[i]) * kQ);
                caches.emplace_back(type, starts[i] + counts[i]);
                Cache& cache = caches.back();
                AttendArgs args = kCases[0];
                args.kv = cache.layer;
                const std::vector<float> before(x.begin(), x.begin() + starts[i] * kQ);
                const std::vector<float> now(x.begin() + starts[i] * kQ, x.end());
                const Segment past{cache.pages.data(), 0, starts[i], 0},
                    alone{cache.pages.data(), 0, counts[i], starts[i]};
                if (starts[i] > 0) run(before, {&past, 1}, args);
                const std::vector<float> y = run(now, {&alone, 1}, args);
                expected.insert(expected.end(), y.begin(), y.end());
                batch.insert(batch.end(), now.begin(), now.end());
                segments.push_back({cache.pages.data(), row, counts[i], starts[i]});
                row += counts[i];
            }
            AttendArgs args = kCases[0];
            args.kv = caches.front().layer;
            EXPECT_EQ(0, std::memcmp(expected.data(), run(batch, segments, args).data(), expected.size() * 4))
                << type_info(type).name << " few " << few;
        }
}

}  // namespace
}  // namespace tessera
