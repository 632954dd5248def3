// The file of a compiled model: it reads back as written, writing is deterministic, and changed files are
// refused.
#include "src/npu/context_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "common/rng.h"
#include "src/npu/device_run.h"
#include "src/npu/model_check.h"
#include "tests/npu/context_support.h"
#include "tests/support/data.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_folder.h"

namespace tessera::npu {
namespace {

using tessera::test::FileSizeLimit;
using tessera::test::read_file;
using tessera::test::TempFolder;
using test::CompiledLinears;

CompiledLinears small() { return CompiledLinears("toy", {1, 70}, 64, 40); }

/// Bytes in an allocation of exactly their size, like a mapping.
struct Bytes {
    std::vector<std::byte> all;
    explicit Bytes(std::string_view text) : all(text.size()) {
        std::memcpy(all.data(), text.data(), text.size());
    }
};

std::string written(const DeviceModel& model, const HtpDevice& device) {
    const TempFolder folder;
    const auto done = write_context(folder.at("a.nctx"), model, device);
    EXPECT_TRUE(done) << done.error().message;
    return read_file(folder.at("a.nctx"));
}

std::string refusal(std::span<const std::byte> bytes, const ContextFile::Options& options = {}) {
    const auto file = ContextFile::parse(bytes, "some.nctx", options);
    return file ? "none" : file.error().message;
}

bool says(const std::string& message, std::string_view text) {
    return message.find(text) != std::string::npos;
}

void expect_round_trip(const CompiledLinears& c) {
    const TempFolder folder;
    ASSERT_TRUE(write_context(folder.at("a.nctx"), c.model, c.device));
    const auto file = ContextFile::open(folder.at("a.nctx"), {});
    ASSERT_TRUE(file) << file.error().message;
    const DeviceModel& model = file->model();
    auto emulator = Emulator::create(c.device.vtcm_bytes, kTilesScalar, test::one_thread());
    for (size_t s = 0; s < model.segments.size(); ++s)
        for (size_t g = 0; g < model.segments[s].graphs.size(); ++g)
            EXPECT_EQ(c.run(model, s, g, *emulator), c.expected(s, model.segments[s].graphs[g].n_tok));
    // The sections as they would be written again, and their places in the file.
    EXPECT_EQ(written(model, file->device()), read_file(folder.at("a.nctx")));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(model.constants.data()) % 4096, 0u);
    EXPECT_EQ(file->file_bytes(), std::filesystem::file_size(folder.at("a.nctx")));
    EXPECT_EQ(file->sections().back().bytes, c.constants.size());
    EXPECT_EQ(file->device().canonical_text(), c.device.canonical_text());
    EXPECT_EQ(model.ops[0].reason, "left out by --offload");
    EXPECT_EQ(model.caches[0].v, c.model.caches[0].v);
    EXPECT_EQ(model.segments[1].graphs[1].nodes[1].name, "blk.1.down");
    EXPECT_EQ(model.sessions.size(), c.model.sessions.size());
    EXPECT_EQ(model.cache_bytes, c.model.cache_bytes);
}

TEST(Context, AReadModelComputesLikeTheWrittenOne) {
    expect_round_trip(small());
    expect_round_trip(CompiledLinears("toy", {1, 70}, 64, 40, 2));
}

TEST(Context, ModelsBeyondTheAddressSpaceAreErrors) {
    for (const size_t n_sessions : {1, 2}) {
        CompiledLinears c("toy", {1, 70}, 64, 40, n_sessions);
        int64_t most = 0;
        for (const DeviceSession& session : c.model.sessions) most = std::max(most, session.bytes());
        for (const bool fits : {true, false}) {
            c.device.session_bytes = most - !fits;
            c.model.device_hash = c.device.hash();
            const auto checked = check_described_model(c.model, c.device);
            EXPECT_EQ(checked.has_value(), fits);
            if (fits) continue;
            EXPECT_TRUE(says(checked.error().message, "expected at most " + std::to_string(most - 1) +
                                                          " bytes, found " + std::to_string(most)))
                << checked.error().message;
        }
    }
}

TEST(Context, TheSameModelGivesTheSameBytes) {
    EXPECT_EQ(written(small().model, small().device), written(small().model, small().device));
}

TEST(Context, GraphsShareTheirWeights) {
    const CompiledLinears one("x-elite", {1}, 1024, 1536), both("x-elite", {1, 128}, 1024, 1536);
    const size_t alone = written(one.model, one.device).size();
    const size_t together = written(both.model, both.device).size();
    EXPECT_GT(together, alone);
    EXPECT_LT(together - alone, one.constants.size() / 50);
}

TEST(Context, EveryPrefixIsRefused) {
    const CompiledLinears c = small();
    const Bytes whole(written(c.model, c.device));
    ASSERT_EQ(refusal(whole.all), "none");
    for (size_t n = 0; n < whole.all.size(); ++n) {
        const std::vector<std::byte> prefix(whole.all.begin(),
                                            whole.all.begin() + static_cast<std::ptrdiff_t>(n));
        const std::string message = refusal(prefix);
        ASSERT_TRUE(says(message, "'some.nctx': ") && says(message, "compile")) << n << ": " << message;
    }
    std::vector<std::byte> longer = whole.all;
    longer.push_back({});
    EXPECT_TRUE(says(refusal(longer), "expected ")) << refusal(longer);
}

TEST(Context, EveryChangedByteIsNoticed) {
    const CompiledLinears c = small();
    Bytes file(written(c.model, c.device));
    const auto constants = test::get_at<uint64_t>(file.all, test::kHeaderPlaces + 24 * 4);
    test::Draw draw(1);
    for (size_t i = 0; i < file.all.size(); ++i) {
        const auto flip = static_cast<std::byte>(draw.integer(1, 255));
        file.all[i] ^= flip;
        ASSERT_NE(refusal(file.all), "none") << "byte " << i;
        // Not in the constants unless they are checked.
        ASSERT_EQ(refusal(file.all, {.check_constants = false}) == "none", i >= constants) << "byte " << i;
        file.all[i] ^= flip;
    }
}

struct Change {
    const char* what;
    std::function<void(std::span<std::byte>)> make;
    const char* message;
};

TEST(Context, InvalidHeadersAreRefused) {
    const CompiledLinears c = small();
    const std::string sound = written(c.model, c.device);
    const auto put = [](size_t at, auto value) {
        return [at, value](std::span<std::byte> bytes) { test::put_at(bytes, at, value); };
    };
    constexpr size_t kPlace = test::kHeaderPlaces;
    const Change changes[] = {
        {"magic", put(0, 'X'), "which starts with \"TSRNPUCX\""},
        {"version", put(8, uint32_t{1}), "version 1, and this program reads version 2"},
        {"arch", put(12, uint32_t{75}), "'device' makes no sense"},
        {"size", put(16, uint64_t{1}), "expected 1 bytes"},
        {"device", put(24, uint64_t{5}), "not compiled for the device 'toy'"},
        {"offset", put(kPlace, uint64_t{8192}), "'device' is not where it belongs"},
        {"offset of the last", put(kPlace + 24 * 4, UINT64_MAX - 4095), "is not where it belongs"},
        {"overlap", put(kPlace + 24 * 2, uint64_t{4096}), "'graphs' is not where it belongs"},
        {"length", put(kPlace + 8, UINT64_MAX), "'device' is not where it belongs"},
        {"shorter", put(kPlace + 24 * 4 + 8, uint64_t{1}), "behind its last section"},
        {"a gap", put(test::kHeaderBytes + 8, uint8_t{1}), "there are bytes before its section 'device'"},
    };
    for (const Change& change : changes) {
        Bytes file(sound);
        change.make(file.all);
        test::seal(file.all);
        const std::string message = refusal(file.all);
        EXPECT_TRUE(says(message, change.message)) << change.what << ": " << message;
        if (std::string_view(change.what) != "magic") {
            EXPECT_TRUE(says(message, "compile the model again")) << message;
        }
    }
}

struct Wrong {
    std::function<void(DeviceModel&)> make;
    const char* message;
};

/// Neither written nor, if it were, read.
TEST(Context, ModelsThatContradictThemselvesAreRefused) {
    const auto first = [](DeviceModel& m) -> DeviceGraph& { return m.segments[0].graphs[0]; };
    const auto arena = [](DeviceModel& m, int64_t bytes) {
        m.sessions[0].arena.bytes = bytes;
        place_sessions(m);
    };
    const Wrong wrongs[] = {
        {[](DeviceModel& m) { m.device_hash ^= 1; }, "not compiled for the device"},
        {[](DeviceModel& m) { m.vtcm_bytes += 2048; }, "not compiled for the device"},
        {[](DeviceModel& m) { m.n_ctx = -1; }, "positions of the cache"},
        {[](DeviceModel& m) { m.arena_bytes = INT64_MAX; }, "bytes of activations"},
        {[=](DeviceModel& m) { arena(m, INT64_MAX); }, "bytes of activations"},
        {[=](DeviceModel& m) { arena(m, m.arena_bytes + 1); }, "bytes of activations: expected "},
        {[=](DeviceModel& m) { arena(m, 64); }, "bytes of activations: expected 0 to 64"},
        {[](DeviceModel& m) { m.sessions[0].cache.bytes -= 1, place_sessions(m); }, "the cache of layer 0"},
        {[](DeviceModel& m) { m.cache_bytes -= 1; }, "bytes of the cache"},
        {[](DeviceModel& m) { m.sessions[0].arena.at = 128; }, "one behind the other"},
        {[](DeviceModel& m) { m.sessions.clear(), place_sessions(m); }, "bytes of constants"},
        {[](DeviceModel& m) { m.segments[1].session = 1; }, "the session of a segment: expected 0 to 0"},
        {[](DeviceModel& m) { m.segments[1].session = -1; }, "the session of a segment"},
        {[](DeviceModel& m) { m.caches[0].session = 1; }, "the session of a cache: expected 0 to 0"},
        {[](DeviceModel& m) { m.caches[0].v -= 1; }, "two caches share the bytes at 6143"},
        {[](DeviceModel& m) { m.caches[0].k = UINT64_MAX; }, "the cache of layer 0"},
        {[](DeviceModel& m) { m.caches[0].n_head = 0; }, "heads of a cache"},
        {[](DeviceModel& m) { m.caches.push_back(m.caches[0]); }, "the layer of a cache"},
        {[](DeviceModel& m) { m.ops[1].segment = -1; }, "blk.0.ffn: expected segment 0, found -1"},
        {[](DeviceModel& m) { m.ops[0].reason.clear(); }, "blk.0.norm: expected a reason"},
        {[](DeviceModel& m) { m.ops[3].name = "a\nb"; }, "expected a name"},
        {[](DeviceModel& m) { m.segments[1].first_op = 1; }, "the first operation of a segment"},
        {[](DeviceModel& m) { m.segments[1].last_op = 4; }, "the last operation of a segment"},
        {[](DeviceModel& m) { m.segments[0].graphs.clear(); }, "segment 0: it has no graphs"},
        {[](DeviceModel& m) { std::swap(m.segments[0].graphs[0], m.segments[0].graphs[1]); }, "in order"},
        {[](DeviceModel& m) { m.segments[0].attends = true; }, "positions: expected 1 to 64, found 0"},
        {[&](DeviceModel& m) { first(m).n_ctx = 32; }, "positions: expected 0 to 0"},
        {[&](DeviceModel& m) { first(m).n_tok = 0; }, "rows: expected 1"},
        {[&](DeviceModel& m) { first(m).arena_bytes -= 1; }, "outside"},
        {[&](DeviceModel& m) { first(m).vtcm_bytes -= 1; }, "of VTCM are outside"},
        {[&](DeviceModel& m) { first(m).inputs[0].name = ""; }, "expected a name"},
        {[&](DeviceModel& m) { first(m).inputs[0].dim = 96; }, "differ in what they read"},
        {[&](DeviceModel& m) { first(m).inputs[0].dim = INT64_MAX; }, "the width of a port"},
        {[&](DeviceModel& m) { first(m).inputs[0].arena_offset = UINT64_MAX - 3; }, "are outside of the"},
        {[&](DeviceModel& m) { first(m).outputs[0].encoding.bits = 9; }, "an encoding of 9 bits"},
        {[&](DeviceModel& m) { first(m).outputs[0].encoding.scale = NAN; }, "an encoding of 16 bits"},
        {[&](DeviceModel& m) { first(m).outputs[0].encoding.zero = 65536; }, "zero 65536"},
        {[&](DeviceModel& m) { first(m).nodes.clear(); }, "belong to no operation"},
        {[&](DeviceModel& m) { first(m).nodes[1].first = 100000; }, "its instructions start at 100000"},
        {[&](DeviceModel& m) { first(m).stream[0].transfer.ddr = 1 << 20; }, "graph of 1 rows"},
        {[&](DeviceModel& m) { first(m).stream[0].transfer.past_stride = 1; }, "goes by positions"},
        {[&](DeviceModel& m) { first(m).stream[0].waits[2] = 9; }, "waits for 9 instructions of HMX"},
        {[](DeviceModel& m) { m.constants = m.constants.first(100); }, "bytes of constants"},
        {[](DeviceModel& m) { m.sessions[0].constants.bytes = 100, m.constants = m.constants.first(100); },
         "are outside"},
    };
    const TempFolder folder;
    for (const Wrong& wrong : wrongs) {
        CompiledLinears c = small();
        wrong.make(c.model);
        const auto done = write_context(folder.at("a.nctx"), c.model, c.device);
        ASSERT_FALSE(done) << wrong.message;
        EXPECT_TRUE(says(done.error().message, wrong.message)) << done.error().message;
    }
    EXPECT_EQ(folder.n_files(), 0u);
}

/// Any change with recomputed checksums: a file that still opens accesses only its own memory.
TEST(Context, ChangedFilesThatOpenRunInBounds) {
    const CompiledLinears c("toy", {1, 70}, 64, 40, 2);
    const std::string sound = written(c.model, c.device);
    auto emulator = Emulator::create(c.device.vtcm_bytes, kTilesScalar, test::one_thread());
    Rng rng(3);
    int n_opened = 0, n_refused = 0;
    for (int i = 0; i < 4000; ++i) {
        Bytes file(sound);
        // Among the sections: those after the device's are dense.
        const auto part = 1 + rng.next_u64() % 3;
        const auto offset = test::get_at<uint64_t>(file.all, test::kHeaderPlaces + 24 * part);
        const auto bytes = test::get_at<uint64_t>(file.all, test::kHeaderPlaces + 24 * part + 8);
        const auto at = offset + rng.next_u64() % bytes;
        file.all[at] = static_cast<std::byte>(rng.next_u64() % (i % 2 ? 256 : 4));
        test::seal(file.all);
        const auto opened = ContextFile::parse(file.all, "mutant", {});
        if (!opened) {
            ++n_refused;
            ASSERT_LT(opened.error().message.size(), 1000u);
            continue;
        }
        ++n_opened;
        const DeviceModel& model = opened->model();
        if (model.arena_bytes > 1 << 20 || model.cache_bytes > 1 << 20) continue;
        std::vector<std::byte> arena(static_cast<size_t>(model.arena_bytes));
        std::vector<std::byte> cache(static_cast<size_t>(model.cache_bytes));
        auto* constants = const_cast<std::byte*>(model.constants.data());
        for (const DeviceSegment& segment : model.segments)
            for (const DeviceGraph& graph : segment.graphs)
                emulator->run(graph.stream, memory_of(model.sessions[static_cast<size_t>(segment.session)],
                                                      {std::span(constants, model.constants.size()),
                                                       std::span(arena), std::span(cache)}));
    }
    EXPECT_GT(n_opened, 200);
    EXPECT_GT(n_refused, 1000);
}

TEST(Context, IsForOneModelAndOneDevice) {
    const CompiledLinears c = small();
    const Bytes bytes(written(c.model, c.device));
    const auto file = ContextFile::parse(bytes.all, "some.nctx", {});
    ASSERT_TRUE(file);
    EXPECT_TRUE(file->expect_model(0x1111));
    const auto other_model = file->expect_model(0x1112);
    ASSERT_FALSE(other_model);
    EXPECT_EQ(other_model.error().message,
              "'some.nctx' was compiled from a file with the digest 0000000000001111, and this one's is "
              "0000000000001112: compile the model again (`tessera npu compile`)");
    EXPECT_TRUE(file->expect_device(c.device));
    HtpDevice faster = c.device;
    faster.clock_hz = 123456789;
    faster.arch = 75;
    const auto other_device = file->expect_device(faster);
    ASSERT_FALSE(other_device);
    EXPECT_TRUE(says(other_device.error().message, "(arch v73, not v75, clock_hz "))
        << other_device.error().message;
}

TEST(Context, DiskFull) {
    const CompiledLinears c = small();
    const TempFolder folder;
    const std::string path = folder.write("a.nctx", "old");
    for (const rlim_t limit : {rlim_t{0}, rlim_t{5000}, rlim_t{written(c.model, c.device).size() - 1}}) {
        const FileSizeLimit full(limit);
        const auto done = write_context(path, c.model, c.device);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, ErrorCode::Io);
        EXPECT_TRUE(says(done.error().message, "cannot write '" + path)) << done.error().message;
    }
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(folder.n_files(), 1u);
    const auto nowhere = write_context(folder.at("absent/a.nctx"), c.model, c.device);
    ASSERT_FALSE(nowhere);
    EXPECT_TRUE(says(nowhere.error().message, "No such file"));
}

TEST(Context, AbsentAndOtherFiles) {
    const TempFolder folder;
    const auto absent = ContextFile::open(folder.at("x"), {});
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().code, ErrorCode::NotFound);
    const auto other = ContextFile::open(folder.write("model.gguf", "GGUF and so on"), {});
    ASSERT_FALSE(other);
    EXPECT_TRUE(says(other.error().message, "expected a model compiled for an NPU")) << other.error().message;
}

}  // namespace
}  // namespace tessera::npu
