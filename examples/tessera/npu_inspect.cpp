// tessera npu inspect: the content of a model file compiled for an NPU, and its predicted times
// (src/npu/graph_cost.h).
#include <algorithm>

#include "common/digest.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/npu_flags.h"
#include "examples/tessera/npu_sessions.h"
#include "examples/tessera/npu_trace.h"
#include "src/npu/context_file.h"
#include "src/npu/graph_cost.h"

namespace tessera {

namespace {

using namespace npu;

struct NpuInspectArgs {
    std::string path, trace;
    int64_t rows = 1, n_ctx = 0;
    bool operations = false, quick = false, json = false;
};

constexpr const char* kUnitNames[] = {"DMA", "HVX", "HMX"};

const char* unit_name(Unit unit) { return kUnitNames[static_cast<size_t>(unit)]; }
std::string size_text(int64_t n) { return format_bytes(static_cast<uint64_t>(n)); }
long long number(int64_t n) { return n; }

/// "blk.0.norm" or "blk.0.norm to blk.3.ffn".
std::string operations_text(const DeviceModel& model, const DeviceSegment& segment) {
    const std::string& first = model.ops[static_cast<size_t>(segment.first_op)].name;
    const std::string& last = model.ops[static_cast<size_t>(segment.last_op)].name;
    return printable(segment.first_op == segment.last_op ? first : first + " to " + last);
}

Json as_json(const Port& port) {
    return {{"name", port.name},          {"dim", port.dim},
            {"bits", port.encoding.bits}, {"scale", port.encoding.scale},
            {"zero", port.encoding.zero}, {"arena_offset", port.arena_offset}};
}

Json times_json(const std::array<double, kUnits>& unit_us, Unit bound) {
    return {{"dma_us", rounded(unit_us[0])},
            {"hvx_us", rounded(unit_us[1])},
            {"hmx_us", rounded(unit_us[2])},
            {"bound", unit_name(bound)}};
}

Json as_json(const NodeCost& node) {
    Json out = {{"name", node.name},
                {"layer", node.layer},
                {"instructions", node.n_instructions},
                {"tiles", {node.row_tiles, node.n_tiles, node.k_tiles}},
                {"dma_bytes", node.dma_bytes},
                {"descriptors", node.n_descriptors}};
    out.update(times_json(node.unit_us, node.bound()));
    out["predicted_us"] = rounded(node.predicted_us);
    out["vtcm_bytes"] = node.vtcm_bytes;
    return out;
}

Json as_json(const DeviceGraph& graph, const HtpDevice& device, bool operations) {
    const GraphCost cost = graph_cost(graph, device);
    Json out = {{"rows", graph.n_tok},
                {"positions", graph.n_ctx},
                {"instructions", graph.stream.size()},
                {"arena_bytes", graph.arena_bytes},
                {"vtcm_bytes", graph.vtcm_bytes},
                {"dma_bytes", cost.timeline.dma_bytes},
                {"descriptors", cost.timeline.n_descriptors}};
    out.update(times_json(cost.timeline.unit_us, cost.timeline.bound()));
    out["predicted_us"] = rounded(cost.timeline.total_us);
    if (operations)
        for (const NodeCost& node : cost.nodes) out["operations"].push_back(as_json(node));
    return out;
}

Json as_json(const ContextFile& file, const NpuInspectArgs& args) {
    const DeviceModel& model = file.model();
    Json out = {{"file", args.path},
                {"bytes", file.file_bytes()},
                {"device", Json::parse(file.device().to_json())},
                {"device_digest", to_hex(model.device_hash)},
                {"model_digest", to_hex(model.model_hash)},
                {"recipe_digest", to_hex(model.recipe_hash)},
                {"ranges_digest", to_hex(model.ranges_hash)},
                {"arena_bytes", model.arena_bytes},
                {"cache_bytes", model.cache_bytes},
                {"positions", model.n_ctx},
                {"times", "a model of the device, not measured"}};
    for (const ContextFile::Section& section : file.sections())
        out["sections"].push_back(
            {{"name", section.name}, {"offset", section.offset}, {"bytes", section.bytes}});
    out["sessions"] = Json::array();
    for (const DeviceSession& session : model.sessions)
        out["sessions"].push_back({{"bytes", session.bytes()},
                                   {"constant_bytes", session.constants.bytes},
                                   {"arena_bytes", session.arena.bytes},
                                   {"cache_bytes", session.cache.bytes}});
    out["segments"] = Json::array();
    for (const DeviceSegment& segment : model.segments) {
        Json one = {{"session", segment.session},
                    {"first_op", model.ops[static_cast<size_t>(segment.first_op)].name},
                    {"last_op", model.ops[static_cast<size_t>(segment.last_op)].name},
                    {"attends", segment.attends}};
        for (const Port& port : segment.graphs[0].inputs) one["inputs"].push_back(as_json(port));
        for (const Port& port : segment.graphs[0].outputs) one["outputs"].push_back(as_json(port));
        for (const DeviceGraph& graph : segment.graphs)
            one["graphs"].push_back(as_json(graph, file.device(), args.operations));
        out["segments"].push_back(one);
    }
    out["caches"] = Json::array();
    for (const DeviceCache& cache : model.caches)
        out["caches"].push_back({{"layer", cache.layer},
                                 {"session", cache.session},
                                 {"n_head", cache.n_head},
                                 {"head_dim", cache.head_dim},
                                 {"k", cache.k},
                                 {"v", cache.v}});
    out["operations"] = Json::array();
    for (const DeviceOp& op : model.ops)
        out["operations"].push_back({{"name", op.name}, {"segment", op.segment}, {"reason", op.reason}});
    return out;
}

std::string head_text(const ContextFile& file) {
    const DeviceModel& model = file.model();
    const HtpDevice& device = file.device();
    std::string out = strf("%s (v%lld, %s of VTCM), digest %s\n", device.name.c_str(), number(device.arch),
                           size_text(device.vtcm_bytes).c_str(), to_hex(model.device_hash).c_str());
    out += strf("model %s, recipe %s, ranges %s\n", to_hex(model.model_hash).c_str(),
                to_hex(model.recipe_hash).c_str(), to_hex(model.ranges_hash).c_str());
    out += format_bytes(file.file_bytes()) + ":";
    for (const ContextFile::Section& section : file.sections())
        out += strf("%s %s %s", &section == file.sections().data() ? "" : ",", section.name,
                    format_bytes(section.bytes).c_str());
    out += strf("\nmemory of the device: activations %s, keys and values %s",
                size_text(model.arena_bytes).c_str(), size_text(model.cache_bytes).c_str());
    const auto n_layers = std::count_if(model.caches.begin(), model.caches.end(),
                                        [](const DeviceCache& cache) { return cache.n_head > 0; });
    if (model.n_ctx > 0) out += strf(" (%lld positions, %td layers)", number(model.n_ctx), n_layers);
    return out + "\n" + npu_sessions_text(model, device) + "\n";
}

std::string segments_text(const ContextFile& file) {
    const DeviceModel& model = file.model();
    std::string out;
    for (size_t i = 0; i < model.segments.size(); ++i) {
        const DeviceSegment& segment = model.segments[i];
        out += strf("segment %zu: %s", i, operations_text(model, segment).c_str());
        out += model.sessions.size() > 1 ? strf(", in session %d\n", segment.session + 1) : "\n";
        const auto ports = [&out](const char* label, const std::vector<Port>& list) {
            for (const Port& port : list)
                out += strf("  %s %s: %lld of u%d, (q - %d) * %g\n", label, printable(port.name).c_str(),
                            number(port.dim), port.encoding.bits, port.encoding.zero,
                            static_cast<double>(port.encoding.scale));
        };
        ports("reads", segment.graphs[0].inputs);
        ports("writes", segment.graphs[0].outputs);
        out +=
            "  rows positions instructions activations       VTCM        DMA   DMA us   HVX us   HMX us"
            "  predicted us  bound\n";
        for (const DeviceGraph& graph : segment.graphs) {
            const Timeline time = graph_cost(graph, file.device()).timeline;
            out +=
                strf("  %4lld %9s %12zu %11s %10s %10s %8.1f %8.1f %8.1f %13.1f  %s\n", number(graph.n_tok),
                     graph.n_ctx > 0 ? std::to_string(graph.n_ctx).c_str() : "-", graph.stream.size(),
                     size_text(graph.arena_bytes).c_str(), size_text(graph.vtcm_bytes).c_str(),
                     size_text(time.dma_bytes).c_str(), time.unit_us[0], time.unit_us[1], time.unit_us[2],
                     time.total_us, unit_name(time.bound()));
        }
    }
    return out;
}

std::string left_out_text(const DeviceModel& model) {
    std::string out;
    for (const DeviceOp& op : model.ops)
        if (op.segment < 0)
            out += strf("  %-24s %s\n", printable(op.name).c_str(), printable(op.reason, 400).c_str());
    return out.empty() ? "\nall operations are on the device\n" : "\non the CPU:\n" + out;
}

std::string pass_text(const ContextFile& file, int64_t rows, int64_t n_ctx) {
    std::string out =
        "\noperation                    tiles   DMA bytes   DMA us   HVX us   HMX us  bound  "
        "predicted us        VTCM\n";
    double total_us = 0;
    for (const DeviceSegment& segment : file.model().segments) {
        for (const NodeCost& node : graph_cost(graph_for(segment, rows, n_ctx), file.device()).nodes) {
            const std::string tiles =
                strf("%lldx%lldx%lld", number(node.row_tiles), number(node.n_tiles), number(node.k_tiles));
            out += strf("%-24s %9s %11lld %8.1f %8.1f %8.1f  %5s %13.1f %11lld\n",
                        printable(node.name).c_str(), node.k_tiles > 0 ? tiles.c_str() : "-",
                        number(node.dma_bytes), node.unit_us[0], node.unit_us[1], node.unit_us[2],
                        unit_name(node.bound()), node.predicted_us, number(node.vtcm_bytes));
            total_us += node.predicted_us;
        }
        total_us += file.device().graph_us;
    }
    return out + strf("a pass of %lld rows: %.1f us, %.1f of them for starting graphs\n", number(rows),
                      total_us, file.device().graph_us * static_cast<double>(file.model().segments.size()));
}

Result<void> inspect_context(const NpuInspectArgs& args) {
    TSR_TRY(const ContextFile file, ContextFile::open(args.path, {.check_constants = !args.quick}));
    const int64_t n_ctx = args.n_ctx > 0 ? args.n_ctx : file.model().n_ctx;
    if (!args.trace.empty()) {
        console::note_replacement(args.trace);
        TSR_TRY_VOID(console::write_file(args.trace, npu_trace(file, args.rows, n_ctx)));
    }
    if (args.json) return console::print(json_line(as_json(file, args)));
    std::string out = printable(args.path, 400) + ": compiled for " + head_text(file) + segments_text(file) +
                      left_out_text(file.model());
    if (args.operations) out += pass_text(file, args.rows, n_ctx);
    return console::print(out + kEmulatedNote);
}

Action declare_npu_inspect(Options& options) {
    auto args = std::make_shared<NpuInspectArgs>();
    options.required("FILE", args->path, "A compiled model.");
    options.flag("--quick", args->quick, "Skip the weights and their checksum.");
    options.group("Pass");
    options.integer("--rows", args->rows, 1, 1 << 16,
                    "Batch size of the pass for --operations and --trace; the smallest graph for it is used, "
                    "or else the largest.");
    options.integer("--ctx", args->n_ctx, 0, 1 << 24, "Context length of the pass; 0: the largest.");
    options.group("Output");
    options.flag("--operations", args->operations,
                 "List the cost of each operation; with --json, for every graph.");
    options.text("--trace", "FILE", args->trace,
                 "Write the timeline of each unit, for chrome://tracing or Perfetto.");
    options.flag("--json", args->json, "Print one JSON object.");
    return [args] { return inspect_context(*args); };
}

}  // namespace

const Command kNpuInspect = {
    .name = "npu inspect",
    .summary = "show a model compiled for an NPU",
    .help =
        "Shows the device, model and recipe of a compiled file, its graphs with their inputs, outputs and "
        "memory, and the operations that stay on the CPU with the reasons. The whole file is validated. "
        "Times are predictions, computed from the device description in the file.",
    .examples =
        "  tessera npu inspect model.nctx\n"
        "  tessera npu inspect model.nctx --operations --rows 128\n"
        "  tessera npu inspect model.nctx --trace decode.json\n"
        "  tessera npu inspect model.nctx --json | jq '.operations[] | select(.segment < 0)'\n",
    .declare = declare_npu_inspect};

}  // namespace tessera
