// tessera npu report: the cost of a model on an NPU, compiled ahead of time and at load, side by side. Child
// processes measure (npu_measure.cpp) before this process allocates anything; the costs of the device are
// predicted from its description and labelled so.
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "common/strings.h"
#include "examples/tessera/child.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/npu_flags.h"
#include "examples/tessera/npu_measure.h"
#include "src/engine/npu_offload.h"
#include "src/forward/record.h"
#include "src/npu/graph_cost.h"
#include "src/npu/model_cost.h"
#include "src/npu/offload_share.h"

namespace tessera {

namespace {

struct ReportArgs {
    NpuTrial trial;
    std::string out;
    bool json = false;
};

/// One column of the table.
struct Way {
    const char* name;
    const char* title;
    NpuStart start;
};

/// Predicted times of a prompt pass and of a decode pass.
struct Predicted {
    double token_us = 0, chunk_us = 0;  ///< by the instructions
    int64_t chunk_rows = 0;
    bool has_formula = false;
    double formula_token_us = 0, formula_chunk_us = 0;  ///< by the sizes, fitted to published speeds
};

struct NpuReport {
    ResidentSet footprint;  ///< of this program before it opens anything
    uint64_t program_bytes = 0;
    std::optional<NpuCompilation> compilation;
    std::vector<Way> ways;

    std::shared_ptr<engine::EmulatedNpuModel> npu;
    record::Program program;
    std::optional<npu::ContextFile> compiled;
    npu::OffloadShare share;
    npu::ArenaUse arena;
    Predicted predicted;
};

/// Removes the file that was compiled for the report only.
struct TemporaryFile {
    std::string path;
    ~TemporaryFile() {
        std::error_code ignored;
        if (!path.empty()) std::filesystem::remove(path, ignored);
    }
};

Predicted predict_passes(const NpuReport& report) {
    const npu::DeviceModel& model = report.compiled->model();
    const npu::HtpDevice& device = report.compiled->device();
    Predicted out;
    std::vector<int64_t> rows(model.segments.size(), 1);
    const int64_t n_ctx = report.ways.front().start.n_ctx;
    out.token_us = npu::pass_us(model, device, rows, n_ctx);
    for (size_t i = 0; i < rows.size(); ++i) {
        if (!npu::is_head(report.program, model.segments[i].first_op))
            rows[i] = model.segments[i].graphs.back().n_tok;
        out.chunk_rows = std::max(out.chunk_rows, rows[i]);
    }
    out.chunk_us = npu::pass_us(model, device, rows, n_ctx);
    const Hparams& h = report.npu->model().hparams();
    const LayerSpec& layer = h.layers.front();
    const bool is_uniform = std::ranges::all_of(h.layers, [&](const LayerSpec& other) {
        return other.n_q() == layer.n_q() && other.n_k() == layer.n_k() && other.n_ff == layer.n_ff;
    });
    out.has_formula = h.moe.n_expert == 0 && is_uniform && report.share.processor.products == 0;
    if (!out.has_formula) return out;
    const npu::ModelSizes sizes{h.n_layer,   h.n_embd,   layer.n_head, layer.n_head_kv,
                                layer.k_dim, layer.n_ff, h.n_vocab};
    out.formula_token_us = npu::estimate_decode(device, sizes, n_ctx).token_us;
    out.formula_chunk_us = npu::estimate_prompt(device, sizes, out.chunk_rows, n_ctx).chunk_us();
    return out;
}

npu::ArenaUse fullest_arena(const npu::DeviceModel& model) {
    const npu::DeviceGraph* largest = nullptr;
    for (const npu::DeviceSegment& segment : model.segments)
        for (const npu::DeviceGraph& graph : segment.graphs)
            if (!largest || graph.arena_bytes > largest->arena_bytes) largest = &graph;
    return largest ? npu::arena_use(*largest) : npu::ArenaUse();
}

/// Facts of the compiled file and its model that need no measurement.
Result<void> add_facts(const ReportArgs& args, const std::string& compiled, NpuReport& report) {
    NpuFlags flags = args.trial.npu;
    flags.file = compiled;
    flags.device.clear();
    TSR_TRY(gguf::File file, args.trial.model.file.open());
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(const engine::NpuOptions options, npu_options(flags));
    TSR_TRY(report.npu, engine::EmulatedNpuModel::create(std::move(file), *isa->table, options));
    TSR_TRY(report.compiled, npu::ContextFile::open(compiled, {.check_constants = false}));
    report.program = record_all_rows(report.npu->model(), 1, 1);
    const int64_t n_ctx = report.ways.front().start.n_ctx;
    report.share = npu::offload_share(report.program, report.npu->parts(), n_ctx);
    report.arena = fullest_arena(report.compiled->model());
    report.predicted = predict_passes(report);
    return {};
}

Json as_json(const ResidentSet& set) {
    return {{"anonymous_bytes", set.anonymous_bytes}, {"file_bytes", set.file_bytes}};
}

uint64_t growth(uint64_t from, uint64_t to) { return to > from ? to - from : 0; }

/// Peak resident set minus the final one.
ResidentSet spike(const NpuStart& s) {
    return {growth(s.after.anonymous_bytes, s.most.anonymous_bytes),
            growth(s.after.file_bytes, s.most.file_bytes)};
}

int64_t heap_growth(const NpuStart& s) {
    return static_cast<int64_t>(s.heap_after.used_bytes) - static_cast<int64_t>(s.heap_before.used_bytes);
}

double share_of(int64_t part, int64_t rest) {
    return part + rest > 0 ? static_cast<double>(part) / static_cast<double>(part + rest) : 0;
}

Json way_json(const Way& way, const NpuReport& report) {
    const NpuStart& s = way.start;
    const bool in_place = std::string_view(way.name) == "jit";
    Json out = {{"way", way.name}};
    out["footprint"] = as_json(report.footprint);
    out["footprint"]["program_file_bytes"] = report.program_bytes;
    out["loading"] = {{"model_seconds", rounded(s.model_seconds)},
                      {"npu_seconds", rounded(s.npu_seconds)},
                      {"npu_cpu_seconds", rounded(s.npu_cpu_seconds)},
                      {"before", as_json(s.before)},
                      {"most", as_json(s.most)},
                      {"after", as_json(s.after)},
                      {"spike", as_json(spike(s))},
                      {"peak_bytes", s.peak_bytes}};
    out["compiling"] = {
        {"anonymous_bytes", in_place ? growth(s.before.anonymous_bytes, s.most.anonymous_bytes) : 0}};
    out["allocation"] = {{"arena_bytes", s.arena_bytes},
                         {"arena_planned_bytes", s.arena_planned_bytes},
                         {"arena_touched_bytes", s.arena_touched_bytes},
                         {"vtcm_bytes", s.vtcm_bytes},
                         {"constant_bytes", s.constant_bytes},
                         {"constants_are", in_place ? "anonymous" : "mapped"},
                         {"decoded", s.n_decode},
                         {"heap_growth_bytes", heap_growth(s)}};
    out["cache"] = {{"bytes", s.cache_bytes},
                    {"positions", s.n_ctx},
                    {"on", s.cache_bytes > 0 ? "device" : "processor"},
                    {"processor_bytes", s.host_cache_bytes},
                    {"copies_per_token", 0},
                    {"border_bytes_per_token", report.npu->parts().boundary_bytes(report.program)}};
    out["fragmentation"] = {{"arena_used_bytes", report.arena.most_bytes},
                            {"arena_waste", rounded(1 - share_of(report.arena.most_bytes,
                                                                 s.arena_bytes - report.arena.most_bytes))},
                            {"arena_largest_hole_bytes", report.arena.largest_hole_bytes},
                            {"heap_used_bytes", s.heap_after.used_bytes},
                            {"heap_free_bytes", s.heap_after.free_bytes},
                            {"heap_free_blocks", s.heap_after.n_free_blocks}};
    out["passes"] = {{"prompt", s.n_prompt},
                     {"prompt_seconds", rounded(s.prompt_seconds)},
                     {"decoded", s.n_decode},
                     {"decode_seconds", rounded(s.decode_seconds)},
                     {"times", "of the emulator on this machine"}};
    return out;
}

Json work_json(const npu::Work& work) {
    return {{"operations", work.n_ops}, {"products", work.products}, {"weight_bytes", work.weight_bytes}};
}

Json predicted_json(const Predicted& p) {
    Json out = {{"is", "a model of the device, not measured"},
                {"token_us", rounded(p.token_us)},
                {"prompt_rows", p.chunk_rows},
                {"prompt_us", rounded(p.chunk_us)}};
    if (p.has_formula)
        out["by_sizes"] = {{"weights", "4 bits in blocks of 64, the head's 8 bits"},
                           {"token_us", rounded(p.formula_token_us)},
                           {"prompt_us", rounded(p.formula_chunk_us)}};
    return out;
}

int64_t border_bytes(const record::Program& program, const std::vector<record::ValueId>& values) {
    int64_t n = 0;
    for (const record::ValueId id : values) n += program[program[id].slot].dim * int64_t{sizeof(float)};
    return n;
}

std::string name_at(const NpuReport& report, int32_t op) {
    return npu::op_name(report.program, report.program.ops[static_cast<size_t>(op)]);
}

Json report_json(const ReportArgs& args, const NpuReport& report) {
    const npu::HtpDevice& device = report.compiled->device();
    Json out = {{"model", report.npu->model().file().path()},
                {"device", device.name},
                {"recipe", args.trial.npu.device.empty() ? Json() : Json(args.trial.npu.recipe)},
                {"positions", report.ways.front().start.n_ctx}};
    if (report.compilation)
        out["compilation"] = {{"seconds", rounded(report.compilation->seconds)},
                              {"cpu_seconds", rounded(report.compilation->cpu_seconds)},
                              {"peak_bytes", report.compilation->peak_bytes},
                              {"anonymous_bytes", growth(report.compilation->before.anonymous_bytes,
                                                         report.compilation->most.anonymous_bytes)},
                              {"file_bytes", report.compilation->file_bytes}};
    for (const Way& way : report.ways) out["ways"].push_back(way_json(way, report));
    out["share"] = {{"device", work_json(report.share.device)},
                    {"processor", work_json(report.share.processor)}};
    out["segments"] = Json::array();
    for (const npu::DeviceRange& range : report.npu->parts().segments)
        out["segments"].push_back({{"first_op", name_at(report, range.first_op)},
                                   {"last_op", name_at(report, range.last_op)},
                                   {"in_bytes", border_bytes(report.program, range.inputs)},
                                   {"out_bytes", border_bytes(report.program, range.outputs)}});
    out["on_processor"] = Json::array();
    const std::vector<npu::Placement>& ops = report.npu->parts().ops;
    for (size_t i = 0; i < ops.size(); ++i)
        if (ops[i].segment < 0)
            out["on_processor"].push_back(
                {{"name", name_at(report, static_cast<int32_t>(i))}, {"reason", ops[i].reason}});
    out["predicted"] = predicted_json(report.predicted);
    return out;
}

std::string bytes_text(int64_t n) { return format_bytes(static_cast<uint64_t>(std::max<int64_t>(n, 0))); }

/// "1.00 GiB + 0.20 GiB of files".
std::string set_text(const ResidentSet& set) {
    return strf("%s + %s of files", format_bytes(set.anonymous_bytes).c_str(),
                format_bytes(set.file_bytes).c_str());
}

/// Rows of a table with a column for each way.
class Rows {
  public:
    explicit Rows(const std::vector<Way>& ways) : ways_(ways) {}

    void title(const char* text) { text_ += strf("%s\n", text); }
    template <class Cell>
    void row(const char* label, const Cell& cell) {
        text_ += strf("  %-26s", label);
        for (const Way& way : ways_) text_ += strf("  %-32s", std::string(cell(way)).c_str());
        text_.erase(text_.find_last_not_of(' ') + 1);
        text_ += "\n";
    }
    std::string take() { return std::move(text_); }

  private:
    const std::vector<Way>& ways_;
    std::string text_;
};

std::string matrix_text(const NpuReport& report) {
    Rows rows(report.ways);
    rows.row("", [](const Way& way) { return way.title; });
    const auto in_place = [](const Way& way) { return std::string_view(way.name) == "jit"; };
    rows.title("1 program, before a model is opened");
    rows.row("resident", [&](const Way&) { return set_text(report.footprint); });
    rows.row("size of its file", [&](const Way&) { return format_bytes(report.program_bytes); });
    rows.title("2 loading");
    rows.row("model, for the CPU", [](const Way& w) { return strf("%.3f s", w.start.model_seconds); });
    rows.row("resident then", [](const Way& w) { return set_text(w.start.before); });
    rows.row("NPU", [](const Way& w) {
        return strf("%.3f s (%.3f s of CPU time)", w.start.npu_seconds, w.start.npu_cpu_seconds);
    });
    rows.row("peak until ready", [](const Way& w) { return set_text(w.start.most); });
    rows.row("resident then", [](const Way& w) { return set_text(w.start.after); });
    rows.row("spike", [](const Way& w) { return set_text(spike(w.start)); });
    rows.title("3 compiling at load");
    rows.row("memory of the compiler", [&](const Way& w) {
        return in_place(w)
                   ? format_bytes(growth(w.start.before.anonymous_bytes, w.start.most.anonymous_bytes))
                   : std::string("none");
    });
    rows.title("4 allocation");
    rows.row("arena, planned", [](const Way& w) { return bytes_text(w.start.arena_bytes); });
    rows.row("these passes, planned", [](const Way& w) { return bytes_text(w.start.arena_planned_bytes); });
    rows.row("these passes, touched", [](const Way& w) { return format_bytes(w.start.arena_touched_bytes); });
    rows.row("weights and tables", [&](const Way& w) {
        return bytes_text(w.start.constant_bytes) + (in_place(w) ? ", anonymous" : ", mapped");
    });
    rows.row("VTCM", [](const Way& w) { return bytes_text(w.start.vtcm_bytes); });
    rows.row("heap grows while decoding", [](const Way& w) {
        return strf("%lld bytes in %lld tokens", static_cast<long long>(heap_growth(w.start)),
                    static_cast<long long>(w.start.n_decode));
    });
    rows.title("5 keys and values");
    rows.row("on the device", [](const Way& w) {
        return w.start.cache_bytes > 0 ? strf("%s, %lld positions", bytes_text(w.start.cache_bytes).c_str(),
                                              static_cast<long long>(w.start.n_ctx))
                                       : std::string("none");
    });
    rows.row("on the CPU", [](const Way& w) {
        return w.start.host_cache_bytes > 0 ? format_bytes(w.start.host_cache_bytes) : std::string("none");
    });
    rows.row("copies per token", [](const Way&) { return "0"; });
    rows.row("bytes copied per token",
             [&](const Way&) { return bytes_text(report.npu->parts().boundary_bytes(report.program)); });
    rows.title("6 fragmentation");
    rows.row("arena, peak use", [&](const Way& w) {
        const double waste =
            1 - share_of(report.arena.most_bytes, w.start.arena_bytes - report.arena.most_bytes);
        return strf("%s, %.1f %% free", bytes_text(report.arena.most_bytes).c_str(), 100 * waste);
    });
    rows.row("largest hole at that point",
             [&](const Way&) { return bytes_text(report.arena.largest_hole_bytes); });
    rows.row("heap", [](const Way& w) {
        return strf("%s, and %s free in %llu", format_bytes(w.start.heap_after.used_bytes).c_str(),
                    format_bytes(w.start.heap_after.free_bytes).c_str(),
                    static_cast<unsigned long long>(w.start.heap_after.n_free_blocks));
    });
    rows.title("host: the emulator on this machine");
    rows.row("prompt", [](const Way& w) {
        return strf("%lld tokens in %.2f s", static_cast<long long>(w.start.n_prompt),
                    w.start.prompt_seconds);
    });
    rows.row("decoding", [](const Way& w) {
        return strf("%lld tokens in %.2f s", static_cast<long long>(w.start.n_decode),
                    w.start.decode_seconds);
    });
    return rows.take();
}

std::string share_text(const NpuReport& report) {
    const npu::Work &on = report.share.device, &off = report.share.processor;
    std::string out = strf(
        "\non the NPU: %lld of %lld operations, %.2f %% of the products, %.2f %% of the weights' bytes\n",
        static_cast<long long>(on.n_ops), static_cast<long long>(on.n_ops + off.n_ops),
        100 * share_of(on.products, off.products), 100 * share_of(on.weight_bytes, off.weight_bytes));
    for (const npu::DeviceRange& range : report.npu->parts().segments)
        out += strf("  %s to %s: %s in, %s out for each token\n",
                    printable(name_at(report, range.first_op)).c_str(),
                    printable(name_at(report, range.last_op)).c_str(),
                    bytes_text(border_bytes(report.program, range.inputs)).c_str(),
                    bytes_text(border_bytes(report.program, range.outputs)).c_str());
    out += "on the CPU:\n";
    const std::vector<npu::Placement>& ops = report.npu->parts().ops;
    for (size_t i = 0; i < ops.size(); ++i)
        if (ops[i].segment < 0)
            out += strf("  %-24s %s\n", printable(name_at(report, static_cast<int32_t>(i))).c_str(),
                        printable(ops[i].reason, 400).c_str());
    return out;
}

std::string predicted_text(const NpuReport& report) {
    const Predicted& p = report.predicted;
    const auto line = [&](const char* by, double token_us, double chunk_us) {
        return strf("  %-24s %8.2f tokens/s decoding, %8.1f ms for %lld tokens of a prompt\n", by,
                    1e6 / token_us, chunk_us / 1e3, static_cast<long long>(p.chunk_rows));
    };
    std::string out = strf("\npredicted for %s by its model, with all %lld positions:\n",
                           printable(report.compiled->device().name).c_str(),
                           static_cast<long long>(report.ways.front().start.n_ctx));
    out += line("by the instructions", p.token_us, p.chunk_us);
    if (p.has_formula) out += line("by its sizes, 4 bits", p.formula_token_us, p.formula_chunk_us);
    return out;
}

std::string report_text(const NpuReport& report) {
    std::string out = strf("%s on %s\n", printable(report.npu->model().file().path(), 400).c_str(),
                           report.npu->description().c_str());
    if (report.compilation)
        out += strf("compiled ahead of time in %.1f s (%.1f s of CPU time), %s at peak, to a file of %s\n",
                    report.compilation->seconds, report.compilation->cpu_seconds,
                    format_bytes(report.compilation->peak_bytes).c_str(),
                    format_bytes(report.compilation->file_bytes).c_str());
    return out + "\n" + matrix_text(report) + share_text(report) + predicted_text(report) + kEmulatedNote;
}

Result<void> make_report(ReportArgs args) {
    NpuReport report;
    report.footprint = resident_set();
    std::error_code unknown;
    report.program_bytes = std::filesystem::file_size("/proc/self/exe", unknown);
    const console::InterruptGuard guard(console::Signals::Ending);
    TemporaryFile temporary;
    NpuTrial ahead = args.trial;
    if (args.trial.npu.file.empty()) {
        const std::string path = !args.out.empty()
                                     ? args.out
                                     : (std::filesystem::temp_directory_path() /
                                        strf("tessera-report-%d.nctx", static_cast<int>(getpid())))
                                           .string();
        if (args.out.empty()) temporary.path = path;
        console::note_replacement(args.out);
        TSR_TRY(report.compilation, in_child<NpuCompilation>("compiling", [&] {
                    return measure_npu_compilation(args.trial, path);
                }));
        ahead.npu = {
            .file = path, .device = "", .ranges = "", .offload = "", .strict = args.trial.npu.strict};
    }
    TSR_TRY(const NpuStart of_file,
            in_child<NpuStart>("loading the compiled file", [&] { return measure_npu_start(ahead); }));
    report.ways.push_back({"aot", "ahead of time", of_file});
    if (args.trial.npu.file.empty()) {
        TSR_TRY(const NpuStart in_place,
                in_child<NpuStart>("compiling at load", [&] { return measure_npu_start(args.trial); }));
        report.ways.push_back({"jit", "at load", in_place});
    }
    TSR_TRY_VOID(add_facts(args, ahead.npu.file, report));
    return console::print(args.json ? json_line(report_json(args, report)) : report_text(report));
}

Action declare_npu_report(Options& options) {
    auto args = std::make_shared<ReportArgs>();
    args->trial.model.declare(options);
    args->trial.npu.declare(options);
    options.group("Passes");
    options.integer(
        "-c,--ctx", args->trial.n_ctx, 0, int64_t{1} << 24,
        "Context length in tokens; 0: that of the compiled file, or else as trained, but at most 4096.");
    options.integer("-p,--n-prompt", args->trial.n_prompt, 0, 1 << 20,
                    "Prompt tokens that the emulator computes after loading.");
    options.integer("-n,--n-predict", args->trial.n_decode, 0, 1 << 20, "Tokens that it then decodes.");
    options.group("Output");
    options.text("-o,--out", "FILE", args->out,
                 "Keep the compiled model in this file instead of a temporary one.");
    options.flag("--json", args->json, "Print one JSON object.");
    options.check([args]() -> Result<void> {
        if (!args->trial.npu.is_on())
            return fail(ErrorCode::InvalidArgument,
                        "--npu FILE, or --npu-device NAME with --npu-ranges FILE, "
                        "is needed");
        if (!args->out.empty() && !args->trial.npu.file.empty())
            return fail(ErrorCode::InvalidArgument, "-o and --npu exclude each other");
        return {};
    });
    return [args] { return make_report(*args); };
}

}  // namespace

const Command kNpuReport = {
    .name = "npu report",
    .summary = "measure memory and load time on an NPU",
    .help =
        "Loads a model onto an NPU twice, from a compiled file and compiled at load, each in a process of "
        "its own, and prints both measurements: time, memory during and after loading, KV cache, heap. Then "
        "it prints the NPU's share of the work, the operations that stay on the CPU with the reasons, and "
        "the predicted speed of the device.",
    .examples =
        "  tessera npu report model.gguf --npu-device x-elite --npu-ranges model.ranges.json\n"
        "  tessera npu report model.gguf --npu-device sm8750 --npu-ranges model.ranges.json -c 4096 --json\n"
        "  tessera npu report model.gguf --npu model.nctx\n",
    .declare = declare_npu_report};

}  // namespace tessera
