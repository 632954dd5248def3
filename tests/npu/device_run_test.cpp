// Whole models in the emulated device equal their reference bit for bit, for any cut, any order that the
// waits allow, and any content of undefined memory.
#include "src/npu/device_run.h"

#include <algorithm>
#include <map>

#include "src/npu/attention_stream.h"
#include "src/npu/layout.h"
#include "src/npu/model_check.h"
#include "src/npu/stream.h"
#include "tests/npu/device_support.h"

namespace tessera::npu {
namespace {

using namespace test;

class DeviceRuns : public testing::TestWithParam<TestModel> {};

TEST_P(DeviceRuns, EqualTheReference) {
    const TestModel& test = GetParam();
    ThreadPool pool(2);
    auto model = load_model(test.path(), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    Draw draw(1);
    for (const auto& [device, recipe] :
         {std::pair("toy", "w4a16"), {"toy", "w8a16-hmx"}, {"x-elite", "w8a8"}}) {
        DeviceCase c(**model, pool, device, recipe, {1, 70}, {96, 160});
        ASSERT_TRUE(c.reference) << device;
        const DeviceModel& compiled = c.compiled.model;
        for (const DeviceSegment& segment : compiled.segments)
            for (const DeviceGraph& graph : segment.graphs)
                EXPECT_EQ(find_hazard(graph.stream, {graph.n_tok, std::max(graph.n_ctx, graph.n_tok)}), "");
        const auto run = c.run(best_kernels(), pool);
        const auto fast = c.run(best_kernels(), pool, DeviceRun::Copies::LeftOut);
        ASSERT_TRUE(run && fast);
        int64_t n_past = 0;
        for (const int64_t n : {70, 1, 20, 1}) {
            const Pass pass{.n_valid = n, .n_past = n_past};
            const PassData inputs = any_inputs(draw, compiled, n);
            const PassData outputs = outputs_of(*run, compiled, pass, inputs);
            EXPECT_EQ(outputs, outputs_of(*c.reference, compiled, pass, inputs))
                << device << ", " << n << " rows at " << n_past;
            EXPECT_EQ(outputs_of(*fast, compiled, pass, inputs), outputs)
                << device << " without copies, " << n << " rows at " << n_past;
            EXPECT_TRUE(std::ranges::equal(run->cache(), fast->cache()));
            n_past += n;
        }
    }
}

/// A prompt in a pass of 128 rows and a padded one gives the same state as passes of one row.
TEST_P(DeviceRuns, SameBitsForEveryPassLength) {
    const TestModel& test = GetParam();
    ThreadPool pool(2);
    auto model = load_model(test.path(), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    DeviceCase c(**model, pool, "x-elite", "w4a16", {1, 128}, {160});
    ASSERT_TRUE(c.reference);
    const DeviceModel& compiled = c.compiled.model;
    constexpr int64_t kManyRows = 140;
    Draw draw(2);
    const PassData inputs = any_inputs(draw, compiled, kManyRows);
    /// Rows from `first` on.
    const auto rows_of = [&](int64_t first, int64_t n) {
        PassData part = inputs;
        for (auto& segment : part)
            for (auto& x : segment) {
                const auto dim = static_cast<int64_t>(x.size()) / kManyRows;
                x = std::vector<float>(x.begin() + first * dim, x.begin() + (first + n) * dim);
            }
        return part;
    };
    const auto prompt = c.run(best_kernels(), pool), decode = c.run(best_kernels(), pool);
    ASSERT_TRUE(prompt && decode);
    PassData whole = outputs_of(*prompt, compiled, {128, 0}, rows_of(0, 128));
    const PassData rest = outputs_of(*prompt, compiled, {12, 128}, rows_of(128, 12));
    for (size_t s = 0; s < whole.size(); ++s)
        for (size_t port = 0; port < whole[s].size(); ++port)
            whole[s][port].insert(whole[s][port].end(), rest[s][port].begin(), rest[s][port].end());
    for (int64_t row = 0; row < kManyRows; ++row) {
        const PassData one = outputs_of(*decode, compiled, {1, row}, rows_of(row, 1));
        for (size_t s = 0; s < whole.size(); ++s)
            for (size_t port = 0; port < whole[s].size(); ++port) {
                const auto dim = std::ssize(one[s][port]);
                ASSERT_TRUE(
                    std::equal(one[s][port].begin(), one[s][port].end(), whole[s][port].begin() + row * dim))
                    << "row " << row << " of segment " << s;
            }
    }
    EXPECT_TRUE(std::ranges::equal(prompt->cache(), decode->cache()));
}

/// The outputs of the segments of a pass by the program's values; each segment gets the outputs of those
/// before it.
std::map<int32_t, std::vector<float>> values_of(DeviceRun& run, const CompiledModel& compiled,
                                                const Pass& pass) {
    std::map<int32_t, std::vector<float>> values;
    for (size_t s = 0; s < compiled.ranges.size(); ++s) {
        const DeviceRange& range = compiled.ranges[s];
        const DeviceGraph& graph = compiled.model.segments[s].graphs.front();
        std::vector<const float*> from;
        std::vector<float*> to;
        for (size_t i = 0; i < range.inputs.size(); ++i) {
            std::vector<float>& x = values[range.inputs[i].at];
            const Port& port = graph.inputs[i];
            // Inputs from the CPU: random.
            Draw draw(static_cast<uint64_t>(range.inputs[i].at + 1000 * pass.n_past));
            while (std::ssize(x) < pass.n_valid * port.dim)
                x.push_back(static_cast<float>(draw.integer(0, port.encoding.max()) - port.encoding.zero) *
                            port.encoding.scale);
            from.push_back(x.data());
        }
        for (size_t i = 0; i < range.outputs.size(); ++i) {
            std::vector<float>& y = values[range.outputs[i].at];
            y.assign(static_cast<size_t>(pass.n_valid * graph.outputs[i].dim), 0);
            to.push_back(y.data());
        }
        run.run(s, pass, from, to);
    }
    return values;
}

/// For sessions of any size, down to one that holds nothing.
TEST_P(DeviceRuns, SeveralSessionsGiveTheSameBits) {
    const TestModel& test = GetParam();
    ThreadPool pool(2);
    auto model = load_model(test.path(), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    DeviceCase c(**model, pool, "x-elite", "w4a16", {1, 40}, {96});
    ASSERT_TRUE(c.reference);
    ASSERT_EQ(c.compiled.model.sessions.size(), 1u);
    const Pass passes[] = {{.n_valid = 40, .n_past = 0}, {.n_valid = 1, .n_past = 40}};
    const auto run = c.run(best_kernels(), pool);
    std::vector<std::map<int32_t, std::vector<float>>> expected;
    for (const Pass& pass : passes) expected.push_back(values_of(*run, c.compiled, pass));
    const int64_t contexts[] = {96};
    HtpDevice device = c.device;
    device.session_bytes = c.compiled.model.sessions[0].bytes() - 1;
    for (size_t n_sessions = 1;; device.session_bytes = device.session_bytes * 4 / 5) {
        const auto cut =
            compile_model({c.pointers, c.parts.segments, contexts, device, c.ranges, c.matrices});
        if (!cut) {
            EXPECT_GE(n_sessions, 2u);
            const std::string expects = "expected at most the " + std::to_string(device.session_bytes) +
                                        " bytes of a session of 'x-elite'";
            EXPECT_NE(cut.error().message.find(expects), std::string::npos) << cut.error().message;
            break;
        }
        const DeviceModel& compiled = cut->model;
        EXPECT_GE(compiled.sessions.size(), n_sessions);
        n_sessions = compiled.sessions.size();
        for (const DeviceSession& session : compiled.sessions)
            EXPECT_LE(session.bytes(), device.session_bytes);
        const auto several = DeviceRun::create(compiled, best_kernels(), pool);
        ASSERT_TRUE(several) << several.error().message;
        for (size_t i = 0; i < std::size(passes); ++i) {
            const auto found = values_of(**several, *cut, passes[i]);
            for (const auto& [id, rows] : expected[i]) ASSERT_EQ(found.at(id), rows) << n_sessions;
        }
    }
}

/// Checks that no node with a softmax loads its scores; returns the number of softmaxes.
int64_t expect_scores_in_vtcm(const DeviceGraph& graph) {
    int64_t n_softmax = 0;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
        const size_t end = n + 1 < graph.nodes.size() ? graph.nodes[n + 1].first : graph.stream.size();
        const std::span node(graph.stream.data() + graph.nodes[n].first, end - graph.nodes[n].first);
        n_softmax += std::ranges::count(node, Opcode::Softmax, &Instruction::op);
        for (const Instruction& it : node)
            EXPECT_TRUE(it.op != Opcode::Softmax ||
                        std::ranges::none_of(node,
                                             [&](const Instruction& other) {
                                                 return other.op == Opcode::Load &&
                                                        other.transfer.vtcm == it.softmax.x;
                                             }))
                << graph.nodes[n].name;
    }
    return n_softmax;
}

/// Whole row tiles: scores and probabilities of a head never reach DDR, both with a VTCM for the keys and
/// values of two groups and with the smallest VTCM for one.
TEST_P(DeviceRuns, KeepScoresInVtcm) {
    const TestModel& test = GetParam();
    ThreadPool pool(2);
    auto model = load_model(test.path(), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    constexpr int64_t kContext = 160;
    for (const char* recipe : {"w4a16", "w8a8"})
        for (const bool smallest : {false, true}) {
            HtpDevice device = *open_device("x-elite");
            AttentionShape shape{.rows = 128, .n_ctx = kContext};
            {
                const DeviceCase any(**model, pool, "x-elite", recipe, {64}, {kContext});
                ASSERT_TRUE(any.reference);
                const auto& caches = any.compiled.model.caches;
                const auto used =
                    std::ranges::find_if(caches, [](const DeviceCache& c) { return c.n_head > 0; });
                if (used == caches.end() || used->head_dim % kTileChannels != 0) return;
                // One shape of attention in all layers.
                for (const DeviceCache& c : caches)
                    if (c.n_head > 0 && (c.n_head != used->n_head || c.head_dim != used->head_dim)) return;
                shape.n_head = shape.n_head_kv = used->n_head;
                shape.head_dim = used->head_dim;
            }
            EXPECT_EQ(plan_attention(shape, device)->kv_buffers, 2);
            while (smallest) {
                device.vtcm_bytes -= kActTileBytes;
                if (plan_attention(shape, device)) continue;
                device.vtcm_bytes += kActTileBytes;
                break;
            }
            EXPECT_EQ(plan_attention(shape, device)->kv_buffers, smallest ? 1 : 2);
            DeviceCase c(**model, pool, "x-elite", recipe, {64, 128}, {kContext}, {}, device.vtcm_bytes);
            ASSERT_TRUE(c.reference);
            const DeviceModel& compiled = c.compiled.model;
            int64_t n_softmax = 0;
            for (const DeviceSegment& segment : compiled.segments)
                for (const DeviceGraph& graph : segment.graphs) {
                    n_softmax += expect_scores_in_vtcm(graph);
                    EXPECT_EQ(find_hazard(graph.stream, {graph.n_tok, std::max(graph.n_ctx, graph.n_tok)}),
                              "");
                }
            EXPECT_GT(n_softmax, 0);
            std::vector<std::unique_ptr<DeviceRun>> runs;
            for (const Order& order : priorities()) {
                runs.push_back(c.run(best_kernels(), pool));
                runs.back()->reorder(order);
            }
            runs.push_back(c.run(best_kernels(), pool, DeviceRun::Copies::LeftOut));
            Draw draw(11);
            int64_t n_past = 0;
            for (const int64_t n : {128, 20}) {
                const Pass pass{.n_valid = n, .n_past = n_past};
                const PassData inputs = any_inputs(draw, compiled, n);
                const PassData expected = outputs_of(*c.reference, compiled, pass, inputs);
                for (const auto& run : runs)
                    ASSERT_EQ(outputs_of(*run, compiled, pass, inputs), expected)
                        << recipe << ", " << device.vtcm_bytes << " bytes, " << n << " rows at " << n_past;
                n_past += n;
            }
        }
}

INSTANTIATE_TEST_SUITE_P(Models, DeviceRuns, testing::ValuesIn(kTestModels), name_of);
INSTANTIATE_TEST_SUITE_P(LayerModels, DeviceRuns, testing::ValuesIn(kLayerModels), name_of);

/// llama.gguf, which has every part of attention and is small enough for a quick test.
class OneModel : public testing::Test {
  protected:
    void SetUp() override {
        auto model = load_model(model_file("llama"), pool_, "", false);
        ASSERT_TRUE(model) << model.error().message;
        model_ = std::move(*model);
    }
    ThreadPool pool_{1};
    std::shared_ptr<const Model> model_;
};

TEST_F(OneModel, EdgesOfRowsAndOfTheContext) {
    Draw draw(3);
    for (const int64_t n : {1, 4, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129}) {
        DeviceCase c(*model_, pool_, "toy", "w4a16", {n}, {160});
        ASSERT_TRUE(c.reference);
        const auto run = c.run(best_kernels(), pool_);
        // Up to the last position.
        for (int64_t n_past = 160 % n; n_past < 160; n_past += n) {
            if (n < 31 && n_past < 160 - 2 * n) continue;
            const PassData inputs = any_inputs(draw, c.compiled.model, n);
            const Pass pass{.n_valid = n, .n_past = n_past};
            ASSERT_EQ(outputs_of(*run, c.compiled.model, pass, inputs),
                      outputs_of(*c.reference, c.compiled.model, pass, inputs))
                << n << " rows at " << n_past;
        }
    }
}

TEST_F(OneModel, AnyOrderAnyThreadsAnyKernels) {
    DeviceCase c(*model_, pool_, "toy", "w4a16", {1, 70}, {96});
    ASSERT_TRUE(c.reference);
    Draw draw(4);
    const PassData inputs = any_inputs(draw, c.compiled.model, 70);
    const Pass pass{.n_valid = 66, .n_past = 0};
    const PassData expected = outputs_of(*c.reference, c.compiled.model, pass, inputs);
    std::vector<Order> orders = priorities();
    for (uint64_t seed = 0; seed < 4; ++seed) orders.push_back({.kind = Order::Kind::Random, .seed = seed});
    for (const Order& order : orders) {
        const auto run = c.run(best_kernels(), pool_);
        run->reorder(order);
        ASSERT_EQ(outputs_of(*run, c.compiled.model, pass, inputs), expected);
    }
    for (const int n_threads : {1, 2, 3, 8, 16})
        for (const TileKernels* kernels : usable_kernels()) {
            ThreadPool pool(n_threads);
            for (const auto copies : {DeviceRun::Copies::Made, DeviceRun::Copies::LeftOut}) {
                const auto run = c.run(*kernels, pool, copies);
                ASSERT_EQ(outputs_of(*run, c.compiled.model, pass, inputs), expected) << n_threads;
            }
        }
}

TEST_F(OneModel, NoWaitIsLeftOver) {
    DeviceCase c(*model_, pool_, "toy", "w4a16", {70}, {96});
    ASSERT_TRUE(c.reference);
    Draw draw(5);
    const PassData inputs = any_inputs(draw, c.compiled.model, 70);
    const Pass pass{.n_valid = 70, .n_past = 0};
    const PassData expected = outputs_of(*c.reference, c.compiled.model, pass, inputs);
    int n_removed = 0, n_differs = 0;
    while (n_removed < 25) {
        DeviceModel broken = c.compiled.model;
        DeviceGraph& graph = broken.segments[static_cast<size_t>(draw.integer(0, 1))].graphs[0];
        const auto i = static_cast<size_t>(draw.integer(0, std::ssize(graph.stream) - 1));
        uint32_t& wait = graph.stream[i].waits[static_cast<size_t>(draw.integer(0, kUnits - 1))];
        if (wait == 0) continue;
        wait = 0;
        ++n_removed;
        EXPECT_NE(find_hazard(graph.stream, {70, 96}), "") << i;
        for (const Order& order : priorities()) {
            auto run = DeviceRun::create(broken, best_kernels(), pool_);
            ASSERT_TRUE(run);
            (*run)->reorder(order);
            if (outputs_of(**run, broken, pass, inputs) == expected) continue;
            ++n_differs;
            break;
        }
    }
    // Some only guard bytes that are overwritten before they are read.
    EXPECT_GT(n_differs, n_removed / 2);
}

TEST_F(OneModel, GarbageMakesNoDifference) {
    DeviceCase c(*model_, pool_, "x-elite", "w4a16", {1, 70}, {96, 160});
    ASSERT_TRUE(c.reference);
    Draw draw(6);
    const DeviceModel& compiled = c.compiled.model;
    const auto clean = c.run(best_kernels(), pool_), dirty = c.run(best_kernels(), pool_);
    std::vector<std::byte> before;
    int64_t n_past = 0;
    for (const int64_t n : {20, 1, 33}) {
        // Everything but the keys and values of positions before.
        for (std::byte& b : dirty->arena()) b = static_cast<std::byte>(draw.integer(0, 255));
        for (const DeviceCache& cache : compiled.caches)
            for (int64_t i = 0; i < cache.n_head * cache.head_dim; ++i)
                for (int64_t p = n_past; p < compiled.n_ctx; ++p) {
                    dirty->cache()[cache.k + static_cast<uint64_t>(i * compiled.n_ctx + p)] =
                        static_cast<std::byte>(draw.integer(0, 255));
                    const int64_t head = i / cache.head_dim, at = i % cache.head_dim;
                    dirty->cache()[cache.v +
                                   static_cast<uint64_t>((head * compiled.n_ctx + p) * cache.head_dim + at)] =
                        static_cast<std::byte>(draw.integer(0, 255));
                }
        before.assign(dirty->cache().begin(), dirty->cache().end());
        const PassData inputs = any_inputs(draw, compiled, n);
        const Pass pass{.n_valid = n, .n_past = n_past};
        ASSERT_EQ(outputs_of(*dirty, compiled, pass, inputs), outputs_of(*clean, compiled, pass, inputs));
        n_past += n;
        // Padded rows are never appended.
        for (const DeviceCache& cache : compiled.caches)
            for (int64_t i = 0; i < cache.n_head * cache.head_dim; ++i)
                for (int64_t p = n_past; p < compiled.n_ctx; ++p) {
                    const uint64_t k = cache.k + static_cast<uint64_t>(i * compiled.n_ctx + p);
                    ASSERT_EQ(dirty->cache()[k], before[k]);
                }
    }
}

TEST_F(OneModel, TheArenaIsAsLargeAsPlanned) {
    for (const char* device : {"toy", "x-elite"}) {
        DeviceCase c(*model_, pool_, device, "w4a16", {1, 32, 128}, {160, 256});
        ASSERT_TRUE(c.reference);
        const DeviceModel& compiled = c.compiled.model;
        Draw draw(7);
        int64_t most = 0;
        for (size_t s = 0; s < compiled.segments.size(); ++s)
            for (const DeviceGraph& graph : compiled.segments[s].graphs) {
                const Pass pass{.n_valid = graph.n_tok,
                                .n_past = std::max(graph.n_ctx, graph.n_tok) - graph.n_tok};
                const auto run = c.run(best_kernels(), pool_);
                ASSERT_EQ(run->graph_of(s, pass), &graph);
                PassData inputs = any_inputs(draw, compiled, graph.n_tok);
                outputs_of(*run, compiled, pass, inputs);
                int64_t planned = 0;
                for (size_t other = 0; other < compiled.segments.size(); ++other)
                    planned = std::max(planned, run->graph_of(other, pass)->arena_bytes);
                EXPECT_EQ(static_cast<int64_t>(run->arena_peak()), planned);
                EXPECT_LE(graph.vtcm_bytes, compiled.vtcm_bytes);
                most = std::max(most, graph.arena_bytes);
            }
        EXPECT_EQ(compiled.arena_bytes, most);
        // Constants are there once, however many graphs there are.
        DeviceCase one(*model_, pool_, device, "w4a16", {1}, {256});
        EXPECT_EQ(one.compiled.constants.size(), c.compiled.constants.size());
        DeviceCase again(*model_, pool_, device, "w4a16", {1}, {256});
        EXPECT_EQ(one.compiled.constants, again.compiled.constants);
    }
}

/// Changes one field of an operand to something else.
struct StreamChange {
    Draw& draw;
    int64_t which;

    template <class T>
    void operator()(const char*, T& field) {
        if (which-- != 0) return;
        const int64_t any = draw.integer(0, int64_t{1} << draw.integer(0, 32));
        if constexpr (std::is_same_v<T, Multiplier>) {
            (draw.integer(0, 1) ? field.mult = static_cast<int32_t>(any)
                                : field.shift = static_cast<int8_t>(any));
        } else if constexpr (std::is_same_v<T, Encoding>) {
            (draw.integer(0, 1) ? field.bits : field.zero) = static_cast<int32_t>(any);
        } else if constexpr (std::is_same_v<T, bool>) {
            field = !field;
        } else {
            field = static_cast<T>(any);
        }
    }
};

TEST_F(OneModel, ChangedStreamsThatRunStayInBounds) {
    DeviceCase c(*model_, pool_, "toy", "w4a16", {70}, {96});
    ASSERT_TRUE(c.reference);
    Draw draw(8);
    const PassData inputs = any_inputs(draw, c.compiled.model, 70);
    int n_run = 0, n_same = 0;
    for (int i = 0; i < 400; ++i) {
        DeviceModel changed = c.compiled.model;
        DeviceGraph& graph = changed.segments[static_cast<size_t>(draw.integer(0, 1))].graphs[0];
        Instruction& it = graph.stream[static_cast<size_t>(draw.integer(0, std::ssize(graph.stream) - 1))];
        Instruction::visit(it, [&](auto& operands) {
            StreamChange change{draw, draw.integer(0, 11)};
            std::decay_t<decltype(operands)>::fields(operands, change);
        });
        auto run = DeviceRun::create(changed, best_kernels(), pool_);
        if (!run) continue;
        ++n_run;
        const Pass pass{.n_valid = draw.integer(1, 70), .n_past = draw.integer(0, 26)};
        const PassData outputs = outputs_of(**run, changed, pass, inputs);
        // The inputs of each computation are the same except for bytes that were never written.
        auto fast = DeviceRun::create(changed, best_kernels(), pool_, DeviceRun::Copies::LeftOut);
        ASSERT_TRUE(fast);
        n_same += outputs_of(**fast, changed, pass, inputs) == outputs;
    }
    EXPECT_GT(n_run, 50);
    EXPECT_GT(n_same, n_run / 2);
}

/// Most transfers are left out, and the remaining ones keep the order of the stream.
TEST_F(OneModel, WithoutCopiesLittleIsMoved) {
    DeviceCase c(*model_, pool_, "x-elite", "w4a16", {1, 70}, {96});
    ASSERT_TRUE(c.reference);
    for (const DeviceSegment& segment : c.compiled.model.segments)
        for (const DeviceGraph& graph : segment.graphs) {
            const DirectStream direct = direct_stream(graph.stream, c.compiled.constants);
            const auto n_of = [](const auto& list, const auto& unit) {
                return std::count_if(list.begin(), list.end(), [&](const auto& it) { return unit(it); });
            };
            const auto n_before =
                n_of(graph.stream, [](const Instruction& it) { return unit_of(it.op) == Unit::Dma; });
            const auto n_left = n_of(direct.instructions, [](const DirectInstruction& it) {
                return unit_of(it.instruction.op) == Unit::Dma;
            });
            EXPECT_LT(n_left, n_before / 3) << graph.n_tok << " rows";
            // Packed weights are widened separately only for many rows.
            EXPECT_EQ(
                n_of(direct.instructions,
                     [](const DirectInstruction& it) { return it.instruction.op == Opcode::Expand; }) > 0,
                graph.n_tok > 8 &&
                    n_of(graph.stream, [](const Instruction& it) { return it.op == Opcode::Expand; }) > 0);
            // All computing instructions are kept.
            EXPECT_EQ(n_of(direct.instructions,
                           [](const DirectInstruction& it) { return it.instruction.op == Opcode::Multiply; }),
                      n_of(graph.stream, [](const Instruction& it) { return it.op == Opcode::Multiply; }));
        }
}

/// In the first pass it would still be within the cache.
TEST_F(OneModel, AppendingBehindTheCacheIsRefused) {
    DeviceCase c(*model_, pool_, "x-elite", "w4a16", {1, 40}, {96});
    ASSERT_TRUE(c.reference);
    DeviceModel changed = c.compiled.model;
    DeviceSegment& segment = changed.segments[0];
    int n_refused = 0;
    for (DeviceGraph& graph : segment.graphs)
        for (Instruction& it : graph.stream) {
            if (it.op != Opcode::Store || it.transfer.past_stride == 0) continue;
            const Transfer before = it.transfer;
            // Up to the end of the cache at position 0.
            const auto touched = accesses(it, {.n_tok = 1, .n_ctx = 1});
            uint64_t end = 0;
            for (const Access& access : touched)
                if (access.space != 0) end = access.end;
            it.transfer.ddr += static_cast<uint64_t>(changed.cache_bytes) - end;
            const Bounds first = {
                .vtcm_bytes = changed.vtcm_bytes,
                .region_bytes = {std::ssize(changed.constants), changed.arena_bytes, changed.cache_bytes}};
            EXPECT_TRUE(check_stream({it}, first) || it.waits != Progress{});
            const auto refused = check_device_model(changed);
            ASSERT_FALSE(refused);
            EXPECT_NE(refused.error().message.find("of a region in DDR are outside"), std::string::npos)
                << refused.error().message;
            EXPECT_FALSE(DeviceRun::create(changed, best_kernels(), pool_));
            it.transfer = before;
            if (++n_refused == 20) break;
        }
    EXPECT_GT(n_refused, 0);
    EXPECT_TRUE(check_device_model(changed));
}

TEST_F(OneModel, OversizedPassesAreErrors) {
    HtpDevice tiny = *open_device("toy");
    tiny.vtcm_bytes = 4096;
    const auto program = program_of(*model_, 8, 64, RecordedLogits::All);
    const record::Program* const programs[] = {&program};
    QuantizedMatrices matrices(*open_recipe("w4a16"));
    const Partition parts = *partition(program, {}, tiny, matrices.recipe());
    const Ranges ranges = ranges_of(*model_, pool_, some_tokens(16), 64);
    const int64_t contexts[] = {64};
    const auto compiled = compile_model({programs, parts.segments, contexts, tiny, ranges, matrices});
    ASSERT_FALSE(compiled);
    EXPECT_NE(compiled.error().message.find("segment 0: blk.0."), std::string::npos)
        << compiled.error().message;
    for (const int64_t n_ctx : {0, 4, 40}) {
        const int64_t wrong[] = {n_ctx};
        const auto refused = compile_model({programs, parts.segments, wrong, tiny, ranges, matrices});
        ASSERT_FALSE(refused);
        EXPECT_NE(refused.error().message.find("multiples of 32"), std::string::npos);
    }
}

}  // namespace
}  // namespace tessera::npu
