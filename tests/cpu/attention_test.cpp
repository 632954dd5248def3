// Attention against a plain computation in double: head sizes, windows, soft caps, sinks, several sequences
// in a batch, and every way to cut the same tokens into chunks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "common/rng.h"
#include "ggml-like/cpu/backend.h"
#include "quants/dispatch.h"

namespace tessera {
namespace {

/// Numbers of heads, and the widths of a row of inputs, of queries and of keys.
struct Shape {
    int64_t head = 4, head_kv = 2, dim = 32;
    int64_t v_dim = dim;  // of values
    static constexpr int64_t in = 64;
    int64_t q() const { return head * dim; }
    int64_t k() const { return head_kv * dim; }
    int64_t v() const { return head_kv * v_dim; }
    int64_t y() const { return head * v_dim; }
};

/// One layer's cache of one sequence, filled through qkv.
struct Cache {
    KvLayer layer;
    std::vector<std::vector<float>> memory;
    std::vector<std::byte*> pages;

    Cache(const Shape& shape, Type k_type, Type v_type, int64_t n_pos) {
        const auto bytes = [&](Type type, int64_t dim) {
            return static_cast<size_t>(shape.head_kv * kKvPage * type_info(type).row_bytes(dim) + 63) / 64 *
                   64;
        };
        const size_t k_bytes = bytes(k_type, shape.dim), v_bytes = bytes(v_type, shape.v_dim);
        layer = {k_type, v_type, 0, k_bytes, shape.head_kv, shape.dim, shape.v_dim};
        for (int64_t i = 0; i < (n_pos + kKvPage - 1) / kKvPage; ++i) {
            memory.emplace_back((k_bytes + v_bytes) / sizeof(float));
            pages.push_back(reinterpret_cast<std::byte*>(memory.back().data()));
        }
    }
};

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

/// Weights whose rows each select one of the inputs or its negative, at random: products are exact, and a few
/// inputs give many different numbers.
class Taking {
  public:
    Taking(uint64_t seed, int64_t n_out) : w_(static_cast<size_t>(n_out * Shape::in)) {
        Rng rng(seed);
        for (int64_t i = 0; i < n_out; ++i) {
            takes_.push_back(static_cast<size_t>(rng.next_double() * Shape::in));
            sign_.push_back(rng.next_double() < 0.5 ? -1.0f : 1.0f);
            w_[static_cast<size_t>(i * Shape::in) + takes_.back()] = sign_.back();
        }
    }
    Weight weight() const { return matrix(w_, static_cast<int64_t>(sign_.size()), Shape::in); }
    /// The product of the rows x [n, in]: [n, n_out].
    std::vector<double> of(const std::vector<float>& x) const {
        std::vector<double> y;
        for (size_t row = 0; row < x.size(); row += Shape::in)
            for (size_t i = 0; i < sign_.size(); ++i)
                y.push_back(static_cast<double>(sign_[i] * x[row + takes_[i]]));
        return y;
    }

  private:
    std::vector<float> w_, sign_;
    std::vector<size_t> takes_;
};

/// The weights of queries, keys and values of a shape.
struct Projections {
    explicit Projections(const Shape& shape) : q(21, shape.q()), k(22, shape.k()), v(23, shape.v()) {}
    Taking q, k, v;
};

/// The two operations under test.
/// Tests set the fields of the scores; AttentionRun sets the operands.
using AttendArgs = AttendOp<Direct>;

class AttentionRun {
  public:
    explicit AttentionRun(const Shape& shape = {}, int n_threads = 2, const char* isa = "")
        : shape_(shape),
          pool_(n_threads),
          backend_(std::move(*CpuBackend::create(pool_, *(*kernels::choose_isa(isa))->table,
                                                 {.max_tok = kMaxTok,
                                                  .max_rows = kMaxTok,
                                                  .n_head = shape.head,
                                                  .n_group = shape.head / shape.head_kv,
                                                  .k_dim = shape.dim,
                                                  .v_dim = shape.v_dim}))),
          projections_(shape) {}

    /// Runs qkv and attend over the segments' tokens x [n, in]; returns [n, y].
    std::vector<float> run(const std::vector<float>& x, std::span<const Segment> segments, AttendArgs args) {
        const size_t n = x.size() / Shape::in;
        std::vector<float> in = x, q(n * static_cast<size_t>(shape_.q())),
                           y(n * static_cast<size_t>(shape_.y()));
        ActBuffer in_act{.name = "x", .dim = Shape::in, .f32 = in.data()},
            q_act{.name = "q", .dim = shape_.q(), .f32 = q.data()};
        ActBuffer y_act{.name = "y", .dim = shape_.y(), .f32 = y.data()};
        const int64_t n_tok = std::ssize(x) / Shape::in;
        backend_->qkv({.x = &in_act,
                       .n_tok = n_tok,
                       .q = {.w = projections_.q.weight()},
                       .k = {.w = projections_.k.weight()},
                       .v = {.w = projections_.v.weight()},
                       .n_head = shape_.head,
                       .cache = args.cache,
                       .segments = segments,
                       .queries = &q_act});
        args.q = &q_act;
        args.n_tok = n_tok;
        args.segments = segments;
        args.n_head = shape_.head;
        args.y = &y_act;
        backend_->attend(args);
        return y;
    }

    /// Computes one sequence from position 0 in passes of `chunk` tokens.
    std::vector<float> run_cut(const std::vector<float>& x, Type type, int64_t chunk,
                               const AttendArgs& args) {
        return run_cut(x, type, type, chunk, args);
    }
    std::vector<float> run_cut(const std::vector<float>& x, Type k_type, Type v_type, int64_t chunk,
                               AttendArgs args) {
        const int64_t width = Shape::in, n = static_cast<int64_t>(x.size()) / width;
        Cache cache(shape_, k_type, v_type, n);
        args.cache = cache.layer;
        std::vector<float> y;
        for (int64_t at = 0; at < n; at += chunk) {
            const int64_t count = std::min(chunk, n - at);
            const Segment segment{cache.pages.data(), 0, count, at};
            const std::vector<float> part =
                run({x.begin() + at * width, x.begin() + (at + count) * width}, {&segment, 1}, args);
            y.insert(y.end(), part.begin(), part.end());
        }
        return y;
    }

  private:
    static constexpr int64_t kMaxTok = 700;

    Shape shape_;
    ThreadPool pool_;
    std::unique_ptr<CpuBackend> backend_;
    const Projections projections_;
};

std::vector<double> reference(const Shape& shape, const std::vector<float>& x, const AttendArgs& args) {
    const Projections projections(shape);
    const std::vector<double> q = projections.q.of(x), k = projections.k.of(x), v = projections.v.of(x);
    const int64_t n = static_cast<int64_t>(x.size()) / Shape::in;
    std::vector<double> y(static_cast<size_t>(n * shape.y()));
    const auto head = [&](const std::vector<double>& rows, int64_t width, int64_t t, int64_t h) {
        return &rows[static_cast<size_t>(t * width + h * (&rows == &v ? shape.v_dim : shape.dim))];
    };
    for (int64_t t = 0; t < n; ++t)
        for (int64_t h = 0; h < shape.head; ++h) {
            const int64_t kv = h / (shape.head / shape.head_kv);
            const int64_t first = args.window > 0 ? std::max<int64_t>(0, t - args.window + 1) : 0;
            std::vector<double> p(static_cast<size_t>(t + 1));
            const double sink = args.sinks ? static_cast<double>(args.sinks.data[h]) : -1e30;
            double top = sink;
            const double* query = head(q, shape.q(), t, h);
            for (int64_t i = first; i <= t; ++i) {
                double z = std::inner_product(query, query + shape.dim, head(k, shape.k(), i, kv), 0.0);
                z *= static_cast<double>(args.scale);
                if (args.softcap > 0)
                    z = static_cast<double>(args.softcap) * std::tanh(z / static_cast<double>(args.softcap));
                p[static_cast<size_t>(i)] = z;
                top = std::max(top, z);
            }
            double sum = std::exp(sink - top);
            for (int64_t i = first; i <= t; ++i)
                sum += p[static_cast<size_t>(i)] = std::exp(p[static_cast<size_t>(i)] - top);
            for (int64_t d = 0; d < shape.v_dim; ++d) {
                double o = 0;
                for (int64_t i = first; i <= t; ++i)
                    o += p[static_cast<size_t>(i)] * head(v, shape.v(), i, kv)[d];
                y[static_cast<size_t>(t * shape.y() + h * shape.v_dim + d)] = o / sum;
            }
        }
    return y;
}

double worst(const std::vector<float>& a, const std::vector<double>& b) {
    double w = 0;
    for (size_t i = 0; i < a.size(); ++i) w = std::max(w, std::abs(static_cast<double>(a[i]) - b[i]));
    return w;
}

// Soft caps below the scores, among them and far above them, and none.
constexpr float kSinks[] = {-3.0f, 1.5f, 40.0f, -std::numeric_limits<float>::infinity()};

const AttendArgs kCases[] = {
    {.scale = 0.2f},
    {.scale = 0.2f, .softcap = 2},
    {.scale = 0.2f, .window = 1},
    {.scale = 0.2f, .window = 100},
    {.scale = 0.2f, .window = 300},
    {.scale = 0.2f, .sinks = {kSinks, 4}},
    {.scale = 0.2f, .window = 100, .sinks = {kSinks, 4}},
};

/// The largest error allowed for each type of keys and values in AgreesWithPlainComputation, whose values lie
/// in [-2, 2].
double tolerance(Type type) {
    return type == Type::F32 ? 1e-5 : type == Type::F16 ? 1e-2 : type == Type::Q8_0 ? 6e-2 : 0.7;
}

constexpr int64_t kTokens = kKvChunk + 88;

TEST(Attention, AgreesWithPlainComputation) {
    const Shape shape;
    AttentionRun attention(shape);
    const std::vector<float> x = random_rows(1, kTokens * Shape::in);
    for (const AttendArgs& args : kCases) {
        const std::vector<double> expected = reference(shape, x, args);
        for (const Type type : kKvTypes)
            EXPECT_LT(worst(attention.run_cut(x, type, kTokens, args), expected), tolerance(type))
                << type_info(type).name << " " << args.window;
    }
    const std::vector<double> expected = reference(shape, x, kCases[0]);
    EXPECT_LT(worst(attention.run_cut(x, Type::F32, Type::Q8_0, kTokens, kCases[0]), expected), 2e-2);
    EXPECT_LT(worst(attention.run_cut(x, Type::Q8_0, Type::F32, kTokens, kCases[0]), expected), 6e-2);
    EXPECT_LT(worst(attention.run_cut(x, Type::F16, Type::Q4_0, kTokens, kCases[0]), expected), 0.3);
}

/// Every head size that a model may have, with one query head per KV head and with several, and quantized
/// caches for head sizes that are multiples of 32. The tokens fill two KV chunks; the last four are computed
/// in a pass of their own that is split over chunks.
TEST(Attention, HeadSizes) {
    // Of queries and keys, and of values.
    constexpr int64_t kSizes[][2] = {
        {16, 16},   {48, 48},   {64, 64},   {80, 80},   {96, 96},
        {112, 112}, {128, 128}, {256, 256}, {512, 512}, {kMaxHeadDim, kMaxHeadDim},
        {576, 512}, {192, 128}, {64, 96},   {48, 16},   {32, 576}};
    for (const auto [dim, v_dim] : kSizes)
        for (const int64_t head : {1, 3}) {
            const Shape shape{head, 1, dim, v_dim};
            AttentionRun attention(shape);
            constexpr int64_t kN = kKvChunk + 44;
            const std::vector<float> x = random_rows(3, kN * Shape::in);
            const AttendArgs args{.scale = 0.1f};
            const std::vector<double> expected = reference(shape, x, args);
            for (const Type type : kKvTypes) {
                if (dim % type_info(type).block != 0 || v_dim % type_info(type).block != 0) continue;
                const std::vector<float> y = attention.run_cut(x, type, kN - 4, args);
                // Large heads make attention weights sharp, which magnifies the errors of the keys.
                EXPECT_LT(worst(y, expected), type == Type::Q4_0 ? 3 : 10 * tolerance(type))
                    << type_info(type).name << " " << dim << " " << v_dim;
                EXPECT_EQ(0,
                          std::memcmp(y.data(), attention.run_cut(x, type, 100, args).data(), y.size() * 4))
                    << type_info(type).name << " " << dim << " " << v_dim;
            }
        }
}

/// Keys and values of different sizes, on every instruction set and with different types.
TEST(Attention, KeysAndValuesOfDifferentSizes) {
    constexpr int64_t kN = 140, kDecoded = kKvChunk + 3;
    const std::vector<float> x = random_rows(5, kN * Shape::in),
                             long_x = random_rows(6, kDecoded * Shape::in);
    const AttendArgs args{.scale = 0.1f};
    for (const Shape& shape : {Shape{4, 2, 96, 64}, Shape{2, 1, 576, 512}, Shape{2, 2, 32, 64}})
        for (const auto& [k_type, v_type] :
             {std::pair{Type::F16, Type::F16}, {Type::Q8_0, Type::Q8_0}, {Type::Q4_0, Type::F16}}) {
            AttentionRun scalar(shape, 1, "scalar");
            const std::vector<float> expected = scalar.run_cut(x, k_type, v_type, kN, args);
            for (const kernels::IsaInfo& isa : kernels::all_isas()) {
                if (!isa.usable) continue;
                AttentionRun attention(shape, 2, std::string(isa.name).c_str());
                const std::vector<float> y = attention.run_cut(x, k_type, v_type, 64, args);
                EXPECT_EQ(0, std::memcmp(expected.data(), y.data(), y.size() * 4))
                    << isa.name << " " << shape.dim << " " << shape.v_dim;
            }
            // The last passes are split over chunks of keys.
            AttentionRun two(shape, 2), three(shape, 3);
            const std::vector<float> whole = two.run_cut(long_x, k_type, v_type, kDecoded, args);
            const std::vector<float> split = three.run_cut(long_x, k_type, v_type, 4, args);
            EXPECT_EQ(0, std::memcmp(whole.data(), split.data(), whole.size() * 4))
                << shape.dim << " " << shape.v_dim;
        }
}

TEST(Attention, SameBitsForCutsThreadsAndInstructionSets) {
    const Shape shape;
    const std::vector<float> x = random_rows(2, kTokens * Shape::in);
    AttentionRun attention(shape), alone(shape, 1), three(shape, 3), scalar(shape, 2, "scalar");
    for (const AttendArgs& args : kCases)
        for (const Type type : kKvTypes) {
            const std::vector<float> whole = attention.run_cut(x, type, kTokens, args);
            const auto same = [&](AttentionRun& run, int64_t chunk) {
                return std::memcmp(whole.data(), run.run_cut(x, type, chunk, args).data(),
                                   whole.size() * 4) == 0;
            };
            for (const int64_t chunk : {3, 4, 5, 64, 257})
                EXPECT_TRUE(same(attention, chunk))
                    << type_info(type).name << " chunk " << chunk << " window " << args.window;
            EXPECT_TRUE(same(alone, 4)) << type_info(type).name;
            EXPECT_TRUE(same(three, 100)) << type_info(type).name;
        }
    for (const Type type : kKvTypes) {
        const AttendArgs& args = kCases[std::size(kCases) - 1];
        const std::vector<float> whole = attention.run_cut(x, type, kTokens, args);
        for (const kernels::IsaInfo& isa : kernels::all_isas()) {
            if (!isa.usable) continue;
            AttentionRun other(shape, 2, std::string(isa.name).c_str());
            const std::vector<float> y = other.run_cut(x, type, 1, args);
            EXPECT_EQ(0, std::memcmp(whole.data(), y.data(), whole.size() * 4))
                << type_info(type).name << " " << isa.name;
        }
    }
}

/// A NaN among the values reaches the tokens that attend to it and no others, wherever passes are cut.
TEST(Attention, NanValuesReachOnlyTokensThatAttendToThem) {
    const Shape shape;
    AttentionRun attention(shape);
    constexpr int64_t kBad = 40, kHalf = 50, kN = 100;
    const std::vector<float> x = random_rows(4, kN * Shape::in);
    const auto row = [&](int64_t t) { return x.begin() + t * Shape::in; };
    for (const Type type : {Type::Q8_0, Type::Q4_0})
        for (const int64_t chunk : {int64_t{1}, kN - kHalf}) {
            Cache cache(shape, type, type, kN);
            AttendArgs args{.cache = cache.layer, .scale = 0.2f, .window = 30};
            const Segment past{cache.pages.data(), 0, kHalf, 0};
            attention.run({row(0), row(kHalf)}, {&past, 1}, args);
            const auto head_bytes = static_cast<size_t>(kKvPage * type_info(type).row_bytes(shape.dim));
            const uint16_t nan = 0x7e00;
            std::memcpy(cache.pages[0] + cache.layer.v_offset + head_bytes + 2 * kBad, &nan, sizeof nan);
            const std::vector<float> good = attention.run_cut(x, type, kN, args);
            for (int64_t at = kHalf; at < kN; at += chunk) {
                const Segment now{cache.pages.data(), 0, chunk, at};
                const std::vector<float> y = attention.run({row(at), row(at + chunk)}, {&now, 1}, args);
                for (int64_t i = 0; i < chunk * shape.q(); ++i) {
                    const int64_t t = at + i / shape.q(), column = i % shape.q();
                    const bool seen = t < kBad + args.window && column >= shape.q() / 2;
                    const float expected = good[static_cast<size_t>(at * shape.q() + i)];
                    const float found = y[static_cast<size_t>(i)];
                    ASSERT_TRUE(seen ? std::isnan(found) : found == expected) << t << " " << column;
                }
            }
        }
}

/// Sequences of different lengths in one batch, some decoding and some prefilling, get the same results as
/// alone.
TEST(Attention, SequencesDoNotAffectEachOther) {
    const Shape shape;
    AttentionRun attention(shape);
    const int64_t starts[] = {300, 0, kKvChunk + 8, 70}, counts[] = {1, 20, 1, 1};
    for (const bool few : {true, false})
        for (const Type type : kKvTypes) {
            std::vector<Cache> caches;
            std::vector<Segment> segments;
            std::vector<float> batch, expected;
            int64_t row = 0;
            for (int i = 0; i < 4; ++i) {
                if (few && counts[i] > 1) continue;
                const std::vector<float> x =
                    random_rows(static_cast<uint64_t>(10 + i), (starts[i] + counts[i]) * Shape::in);
                caches.emplace_back(shape, type, type, starts[i] + counts[i]);
                Cache& cache = caches.back();
                AttendArgs args = kCases[0];
                args.cache = cache.layer;
                const std::vector<float> before(x.begin(), x.begin() + starts[i] * Shape::in);
                const std::vector<float> now(x.begin() + starts[i] * Shape::in, x.end());
                const Segment past{cache.pages.data(), 0, starts[i], 0},
                    alone{cache.pages.data(), 0, counts[i], starts[i]};
                if (starts[i] > 0) attention.run(before, {&past, 1}, args);
                const std::vector<float> y = attention.run(now, {&alone, 1}, args);
                expected.insert(expected.end(), y.begin(), y.end());
                batch.insert(batch.end(), now.begin(), now.end());
                segments.push_back({cache.pages.data(), row, counts[i], starts[i]});
                row += counts[i];
            }
            AttendArgs args = kCases[0];
            args.cache = caches.front().layer;
            EXPECT_EQ(0, std::memcmp(expected.data(), attention.run(batch, segments, args).data(),
                                     expected.size() * 4))
                << type_info(type).name << " few " << few;
        }
}

}  // namespace
}  // namespace tessera
