// Checks a compiled model for consistency: sizes, order, offsets, streams. For models from a file, names and
// texts are also compared with the compiler's output. The rules of the container are in context_file.cpp.
#include "src/npu/model_check.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "src/npu/layout.h"
#include "src/npu/stream.h"

namespace tessera::npu {

namespace {

/// Far larger than in any model, and small enough that products of four fit in 63 bits.
constexpr int64_t kMostBytes = int64_t{1} << 44;
constexpr int64_t kMostRows = 1 << 16, kMostPositions = 1 << 24, kMostDim = 1 << 24, kMostHeads = 1 << 12,
                  kMostHeadDim = 1 << 10;
constexpr size_t kMostNameBytes = 255, kMostSessions = 1 << 10;

using Checked = Result<void>;

Checked in_range(const char* what, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return {};
    return fail(ErrorCode::Malformed, "%s: expected %lld to %lld, found %lld", what,
                static_cast<long long>(low), static_cast<long long>(high), static_cast<long long>(value));
}

Checked check_name(const std::string& name) {
    if (!name.empty() && name.size() <= kMostNameBytes && gguf::is_clean_name(name)) return {};
    return fail(ErrorCode::Malformed, "expected a name of 1 to %zu bytes of text, found '%s'", kMostNameBytes,
                printable(name).c_str());
}

/// Whether [offset, offset + n_bytes) lies in a memory of `size` bytes.
Checked check_place(const std::string& what, uint64_t offset, int64_t n_bytes, int64_t size) {
    if (n_bytes <= size && offset <= static_cast<uint64_t>(size - n_bytes)) return {};
    return fail(ErrorCode::Malformed, "%s: %lld bytes at %llu are outside of the %lld that there are",
                printable(what).c_str(), static_cast<long long>(n_bytes),
                static_cast<unsigned long long>(offset), static_cast<long long>(size));
}

Checked check_port(const Port& port, const DeviceGraph& graph) {
    const Encoding& e = port.encoding;
    if ((e.bits != 8 && e.bits != 16) || !std::isfinite(e.scale) || !(e.scale > 0) || e.zero < 0 ||
        e.zero > e.max())
        return fail(ErrorCode::Malformed, "%s: an encoding of %d bits, scale %g, zero %d makes no sense",
                    printable(port.name).c_str(), e.bits, static_cast<double>(e.scale), e.zero);
    TSR_TRY_VOID(in_range("the width of a port", port.dim, 1, kMostDim));
    const ActLayout layout{graph.n_tok, port.dim, e.bits / 8};
    return check_place(port.name, port.arena_offset, layout.bytes(), graph.arena_bytes);
}

Checked check_nodes(const DeviceGraph& graph) {
    uint32_t at = 0;
    for (const DeviceNode& node : graph.nodes) {
        if (node.first < at || node.first > graph.stream.size() ||
            (&node == graph.nodes.data() && node.first))
            return fail(ErrorCode::Malformed, "%s: its instructions start at %u, behind %u and of %zu",
                        printable(node.name).c_str(), node.first, at, graph.stream.size());
        at = node.first;
    }
    if (graph.nodes.empty() && !graph.stream.empty())
        return fail(ErrorCode::Malformed, "instructions that belong to no operation");
    return {};
}

Checked check_graph(const DeviceGraph& graph, bool attends, const DeviceSession& session,
                    const DeviceModel& model) {
    TSR_TRY_VOID(in_range("rows", graph.n_tok, 1, kMostRows));
    if (attends) {
        TSR_TRY_VOID(in_range("positions", graph.n_ctx, graph.n_tok, model.n_ctx));
        if (graph.n_ctx % kTileChannels != 0)
            return fail(ErrorCode::Malformed, "positions: expected a multiple of %lld, found %lld",
                        static_cast<long long>(kTileChannels), static_cast<long long>(graph.n_ctx));
    } else {
        TSR_TRY_VOID(in_range("positions", graph.n_ctx, 0, 0));
    }
    TSR_TRY_VOID(in_range("bytes of activations", graph.arena_bytes, 0, session.arena.bytes));
    TSR_TRY_VOID(in_range("bytes of VTCM", graph.vtcm_bytes, 0, model.vtcm_bytes));
    for (const auto* ports : {&graph.inputs, &graph.outputs})
        for (const Port& port : *ports) TSR_TRY_VOID(check_port(port, graph));
    TSR_TRY_VOID(check_nodes(graph));
    // A graph without attention runs at any position.
    const auto goes_by_position = [](const Instruction& i) {
        return unit_of(i.op) == Unit::Dma && i.transfer.past_stride != 0;
    };
    if (!attends && std::any_of(graph.stream.begin(), graph.stream.end(), goes_by_position))
        return fail(ErrorCode::Malformed, "a transfer that goes by positions, in a graph that has none");
    // Checking against the sizes that the graph states proves these sizes as well.
    return check_stream(graph.stream,
                        {.vtcm_bytes = graph.vtcm_bytes,
                         .span_bytes = model.vtcm_span_bytes,
                         .region_bytes = {session.constants.bytes, graph.arena_bytes, session.cache.bytes},
                         .pass = {.n_tok = graph.n_tok, .n_ctx = attends ? graph.n_ctx : graph.n_tok}});
}

bool same_ports(const std::vector<Port>& a, const std::vector<Port>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Port& x, const Port& y) {
        return x.name == y.name && x.dim == y.dim && x.encoding.bits == y.encoding.bits &&
               x.encoding.scale == y.encoding.scale && x.encoding.zero == y.encoding.zero;
    });
}

Checked check_segment(const DeviceSegment& segment, const DeviceModel& model) {
    if (segment.graphs.empty()) return fail(ErrorCode::Malformed, "it has no graphs");
    const DeviceSession& session = model.sessions[static_cast<size_t>(segment.session)];
    const DeviceGraph* before = nullptr;
    for (const DeviceGraph& graph : segment.graphs) {
        if (auto checked = check_graph(graph, segment.attends, session, model); !checked)
            return fail_in(strf("graph of %lld rows and %lld positions", static_cast<long long>(graph.n_tok),
                                static_cast<long long>(graph.n_ctx)),
                           std::move(checked.error()));
        if (before) {
            if (std::pair(before->n_tok, before->n_ctx) >= std::pair(graph.n_tok, graph.n_ctx))
                return fail(ErrorCode::Malformed, "its graphs are not in order");
            if (!same_ports(before->inputs, graph.inputs) || !same_ports(before->outputs, graph.outputs))
                return fail(ErrorCode::Malformed, "its graphs differ in what they read or write");
        }
        before = &graph;
    }
    return {};
}

/// Checks sizes and offsets, and that the sessions of segments exist.
Checked check_sessions(const DeviceModel& model) {
    TSR_TRY_VOID(in_range("sessions", std::ssize(model.sessions), 0, kMostSessions));
    for (const DeviceSession& session : model.sessions) {
        TSR_TRY_VOID(in_range("bytes of constants", session.constants.bytes, 0, kMostBytes));
        TSR_TRY_VOID(in_range("bytes of activations", session.arena.bytes, 0, kMostBytes));
        TSR_TRY_VOID(in_range("bytes of the cache", session.cache.bytes, 0, kMostBytes));
    }
    DeviceModel placed;
    placed.sessions = model.sessions;
    place_sessions(placed);
    const auto same_places = [](const DeviceSession& a, const DeviceSession& b) {
        return a.constants.at == b.constants.at && a.arena.at == b.arena.at && a.cache.at == b.cache.at;
    };
    if (!std::equal(model.sessions.begin(), model.sessions.end(), placed.sessions.begin(), same_places))
        return fail(ErrorCode::Malformed, "its sessions do not lie one behind the other");
    TSR_TRY_VOID(in_range("bytes of activations", model.arena_bytes, placed.arena_bytes, placed.arena_bytes));
    TSR_TRY_VOID(in_range("bytes of the cache", model.cache_bytes, placed.cache_bytes, placed.cache_bytes));
    const auto n_constants = static_cast<int64_t>(model.constants.size());
    const Extent last = model.sessions.empty() ? Extent{} : model.sessions.back().constants;
    TSR_TRY_VOID(
        in_range("bytes of constants", static_cast<int64_t>(last.at) + last.bytes, n_constants, n_constants));
    int32_t before = 0;
    for (const DeviceSegment& segment : model.segments) {
        TSR_TRY_VOID(
            in_range("the session of a segment", segment.session, before, std::ssize(model.sessions) - 1));
        before = segment.session;
    }
    return {};
}

Checked check_operations(const DeviceModel& model) {
    int64_t behind = 0;  // one past the last segment's operations
    for (size_t i = 0; i < model.segments.size(); ++i) {
        const DeviceSegment& segment = model.segments[i];
        const auto last_of_all = static_cast<int64_t>(model.ops.size()) - 1;
        TSR_TRY_VOID(in_range("the first operation of a segment", segment.first_op, behind, last_of_all));
        TSR_TRY_VOID(
            in_range("the last operation of a segment", segment.last_op, segment.first_op, last_of_all));
        behind = segment.last_op + 1;
    }
    for (size_t i = 0; i < model.ops.size(); ++i) {
        const DeviceOp& op = model.ops[i];
        TSR_TRY_VOID(check_name(op.name));
        const auto at = static_cast<int32_t>(i);
        const auto holds = [at](const DeviceSegment& s) { return s.first_op <= at && at <= s.last_op; };
        const auto found = std::find_if(model.segments.begin(), model.segments.end(), holds);
        const auto expected = found == model.segments.end() ? -1 : found - model.segments.begin();
        if (op.segment != expected)
            return fail(ErrorCode::Malformed, "%s: expected segment %td, found %d", op.name.c_str(), expected,
                        op.segment);
        if (op.reason.size() > 4 * kMostNameBytes || !gguf::is_clean_name(op.reason) ||
            (expected < 0) == op.reason.empty())
            return fail(ErrorCode::Malformed, "%s: expected a reason only if it stays on the CPU",
                        op.name.c_str());
    }
    return {};
}

Checked check_caches(const DeviceModel& model) {
    std::vector<std::tuple<int32_t, uint64_t, uint64_t>> places;
    int32_t layer = -1;
    for (const DeviceCache& cache : model.caches) {
        TSR_TRY_VOID(in_range("the layer of a cache", cache.layer, layer + 1, kMostRows));
        layer = cache.layer;
        if (cache.n_head == 0 && cache.head_dim == 0 && cache.k == 0 && cache.v == 0) continue;  // not used
        TSR_TRY_VOID(in_range("heads of a cache", cache.n_head, 1, kMostHeads));
        TSR_TRY_VOID(in_range("the width of a cache's heads", cache.head_dim, 1, kMostHeadDim));
        TSR_TRY_VOID(in_range("the session of a cache", cache.session, 0, std::ssize(model.sessions) - 1));
        const DeviceSession& session = model.sessions[static_cast<size_t>(cache.session)];
        const int64_t n_bytes = cache.n_head * cache.head_dim * model.n_ctx;
        for (const uint64_t offset : {cache.k, cache.v}) {
            TSR_TRY_VOID(
                check_place(strf("the cache of layer %d", layer), offset, n_bytes, session.cache.bytes));
            places.emplace_back(cache.session, offset, offset + static_cast<uint64_t>(n_bytes));
        }
    }
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i) {
        const auto& [session, begin, end] = places[i];
        if (std::get<0>(places[i - 1]) == session && begin < std::get<2>(places[i - 1]))
            return fail(ErrorCode::Malformed, "two caches share the bytes at %llu",
                        static_cast<unsigned long long>(begin));
    }
    return {};
}

/// Checks that no arena is larger than its content.
Checked check_arenas(const DeviceModel& model) {
    for (size_t i = 0; i < model.sessions.size(); ++i) {
        int64_t most = 0;
        for (const DeviceSegment& segment : model.segments)
            if (segment.session == static_cast<int32_t>(i))
                for (const DeviceGraph& graph : segment.graphs) most = std::max(most, graph.arena_bytes);
        TSR_TRY_VOID(in_range("bytes of activations", model.sessions[i].arena.bytes, 0, most));
    }
    return {};
}

Checked check_names(const DeviceModel& model) {
    for (const DeviceSegment& segment : model.segments)
        for (const DeviceGraph& graph : segment.graphs) {
            for (const DeviceNode& node : graph.nodes) TSR_TRY_VOID(check_name(node.name));
            for (const auto* ports : {&graph.inputs, &graph.outputs})
                for (const Port& port : *ports) TSR_TRY_VOID(check_name(port.name));
        }
    return {};
}

/// Checks that a session does not exceed the device's address space.
Checked check_address_space(const DeviceModel& model, const HtpDevice& device) {
    for (size_t i = 0; i < model.sessions.size(); ++i)
        if (model.sessions[i].bytes() > device.session_bytes)
            return fail(ErrorCode::Malformed, "session %zu: expected at most %lld bytes, found %lld", i,
                        static_cast<long long>(device.session_bytes),
                        static_cast<long long>(model.sessions[i].bytes()));
    return {};
}

}  // namespace

Result<void> check_device_model(const DeviceModel& model) {
    TSR_TRY_VOID(in_range("positions of the cache", model.n_ctx, 0, kMostPositions));
    TSR_TRY_VOID(in_range("bytes of VTCM", model.vtcm_bytes, 0, kMostBytes));
    TSR_TRY_VOID(in_range("the span of VTCM", model.vtcm_span_bytes, 0, kMostBytes));
    TSR_TRY_VOID(check_sessions(model));
    for (size_t i = 0; i < model.segments.size(); ++i)
        if (auto checked = check_segment(model.segments[i], model); !checked)
            return fail_in(strf("segment %zu", i), std::move(checked.error()));
    return check_arenas(model);
}

Result<void> check_described_model(const DeviceModel& model, const HtpDevice& device) {
    if (model.device_hash != device.hash() || model.device != device.name ||
        model.vtcm_bytes != device.vtcm_bytes || model.vtcm_span_bytes != device.vtcm_span_bytes)
        return fail(ErrorCode::Malformed, "it was not compiled for the device '%s' that it names",
                    device.name.c_str());
    TSR_TRY_VOID(check_operations(model));
    TSR_TRY_VOID(check_names(model));
    TSR_TRY_VOID(check_device_model(model));
    TSR_TRY_VOID(check_caches(model));
    return check_address_space(model, device);
}

}  // namespace tessera::npu
