#pragma once
// Compiled models composed by hand of Linears with random weights: two segments, in one session or two, each
// with a graph for one row and one for many, and an unused cache.
#include <cstring>
#include <memory>
#include <string>

#include "common/hash.h"
#include "src/npu/context_file.h"
#include "tests/npu/linear_case.h"

namespace tessera::npu::test {

struct CompiledLinears {
    struct Part {
        LinearCase c;
        uint64_t weights;  // in the constants of its session
    };
    HtpDevice device;
    std::vector<std::unique_ptr<Part>> parts;
    std::vector<std::byte> constants;
    DeviceModel model;

    CompiledLinears(CompiledLinears&&) = default;

    /// rows: of the graphs of each segment, rising.
    CompiledLinears(const std::string& device_name, std::vector<int64_t> rows, int64_t n_in, int64_t n_out,
                    size_t n_sessions = 1)
        : device(*open_device(device_name)) {
        Draw draw(7);
        model.sessions.resize(n_sessions);
        for (int i = 0; i < 2; ++i) {
            const WeightRecipe recipe{i ? WeightRecipe::Kind::Int8 : WeightRecipe::Kind::Lpbq, i ? 0 : 32};
            constants.resize((constants.size() + 127) / 128 * 128);
            const uint64_t begin = n_sessions > 1 ? constants.size() : 0;
            parts.push_back(std::make_unique<Part>(
                Part{LinearCase(draw, rows.back(), n_in, n_out, recipe, 16, i ? 8 : 16),
                     constants.size() - begin}));
            const auto& blob = parts.back()->c.blob.bytes;
            constants.insert(constants.end(), blob.begin(), blob.end());
            session(i).constants.bytes = std::ssize(constants) - static_cast<int64_t>(begin);
        }
        model.device = device.name;
        model.device_hash = device.hash();
        model.model_hash = 0x1111;
        model.recipe_hash = 0x2222;
        model.ranges_hash = 0x3333;
        model.vtcm_bytes = device.vtcm_bytes;
        model.vtcm_span_bytes = device.vtcm_span_bytes;
        model.n_ctx = 64;
        model.caches = {{.layer = 0, .session = 0, .n_head = 3, .head_dim = 32, .k = 0, .v = 3 * 32 * 64}};
        model.ops = {{"blk.0.norm", -1, "left out by --offload"},
                     {"blk.0.ffn", 0, ""},
                     {"blk.1.ffn", 1, ""},
                     {"head", -1, "dtype"}};
        for (int32_t i = 0; i < 2; ++i) {
            DeviceSegment segment{
                .first_op = 1 + i, .last_op = 1 + i, .attends = false, .session = 0, .graphs = {}};
            segment.session = static_cast<int32_t>(&session(i) - model.sessions.data());
            int64_t& arena_bytes = session(i).arena.bytes;
            for (const int64_t n_tok : rows) {
                segment.graphs.push_back(graph(*parts[static_cast<size_t>(i)], n_tok, i));
                arena_bytes = std::max(arena_bytes, segment.graphs.back().arena_bytes);
            }
            model.segments.push_back(segment);
        }
        model.sessions.back().cache.bytes = 2 * 3 * 32 * 64;
        model.caches[0].session = static_cast<int32_t>(n_sessions) - 1;
        place_sessions(model);
        model.constants = constants;
    }

    /// The outputs of a graph for the inputs, with the constants of any copy of the model.
    std::vector<uint16_t> run(const DeviceModel& of, size_t segment, size_t graph, Emulator& emulator) const {
        const DeviceGraph& g = of.segments[segment].graphs[graph];
        const LinearCase& c = parts[segment]->c;
        std::vector<std::byte> arena(static_cast<size_t>(of.arena_bytes));
        const ActLayout in{g.n_tok, c.in.channels, c.in.planes}, out{g.n_tok, c.out.channels, c.out.planes};
        const auto at = [&](const Port& port) {
            return std::span(arena).subspan(static_cast<size_t>(port.arena_offset));
        };
        pack_activations(in, c.x.data(), at(g.inputs[0]).first(static_cast<size_t>(in.bytes())));
        // A read-only region: a store to it is refused.
        const std::span constants_of(const_cast<std::byte*>(of.constants.data()), of.constants.size());
        const Extent& part = of.sessions[static_cast<size_t>(of.segments[segment].session)].constants;
        emulator.run(g.stream,
                     {constants_of.subspan(part.at, static_cast<size_t>(part.bytes)), std::span(arena), {}});
        std::vector<uint16_t> y(static_cast<size_t>(g.n_tok * c.out.channels));
        unpack_activations(out, at(g.outputs[0]).first(static_cast<size_t>(out.bytes())), y.data());
        return y;
    }
    std::vector<uint16_t> expected(size_t segment, int64_t n_tok) const {
        const auto& y = parts[segment]->c.expected;
        return {y.begin(), y.begin() + n_tok * parts[segment]->c.out.channels};
    }

  private:
    DeviceSession& session(int i) { return i > 0 ? model.sessions.back() : model.sessions.front(); }
    DeviceGraph graph(const Part& part, int64_t n_tok, int i) const {
        const LinearCase& c = part.c;
        LinearShape shape = c.shape;
        shape.rows = n_tok;
        const TilePlan plan = *plan_linear(shape, device);
        const ActLayout in{n_tok, shape.n_in, c.in.planes}, out{n_tok, shape.n_out, c.out.planes};
        const auto behind = static_cast<uint64_t>(in.bytes());
        DeviceGraph g{.n_tok = n_tok, .n_ctx = 0, .stream = {}, .nodes = {}, .inputs = {}, .outputs = {}};
        g.stream = linear_stream(shape, plan,
                                 {.weights = part.weights,
                                  .input = {},
                                  .output = {.at = behind, .channels = 0, .first_tile = 0},
                                  .mult_offset = c.blob.mult_offset,
                                  .record_offset = c.blob.record_offset,
                                  .zero_out = c.op.output.zero,
                                  .factor = {}});
        const std::string block = "blk." + std::to_string(i);
        g.nodes = {{block + ".up", 0}, {block + ".down", static_cast<uint32_t>(g.stream.size() / 2)}};
        g.inputs = {{block + ".x", 0, shape.n_in, c.op.input}};
        g.outputs = {{block + ".down", behind, shape.n_out, c.op.output}};
        g.arena_bytes = in.bytes() + out.bytes();
        g.vtcm_bytes = plan.vtcm_bytes;
        return g;
    }
};

/// Offsets that docs/formats/npu-context.md states.
constexpr size_t kHeaderPlaces = 56, kHeaderSections = 5, kHeaderBytes = kHeaderPlaces + 24 * kHeaderSections;

template <class T>
T get_at(std::span<const std::byte> bytes, size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}
template <class T>
void put_at(std::span<std::byte> bytes, size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

inline uint64_t hash_of(std::span<const std::byte> bytes) {
    Hash64 hash;
    hash.add(bytes);
    return hash.value();
}

/// Recomputes the checksums of a changed file as far as it has places for them.
inline void seal(std::span<std::byte> bytes) {
    if (bytes.size() < kHeaderBytes + 8) return;
    for (size_t i = 0; i < kHeaderSections; ++i) {
        const size_t at = kHeaderPlaces + 24 * i;
        const auto offset = get_at<uint64_t>(bytes, at), n = get_at<uint64_t>(bytes, at + 8);
        if (offset <= bytes.size() && n <= bytes.size() - offset)
            put_at(bytes, at + 16, hash_of(bytes.subspan(offset, n)));
    }
    put_at(bytes, kHeaderBytes, hash_of(bytes.first(kHeaderBytes)));
}

}  // namespace tessera::npu::test
