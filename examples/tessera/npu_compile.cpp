// tessera npu compile: compiles a model for an NPU into a file. The steps are in src/npu (partition,
// quantize, compile, write); this file has their options and the report about the weights.
#include <algorithm>

#include "common/clock.h"
#include "common/cpu.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/model_loading.h"
#include "examples/tessera/npu_sessions.h"
#include "ggml-like/gguf/output_path.h"
#include "src/forward/record.h"
#include "src/npu/compile_model.h"
#include "src/npu/context_file.h"
#include "src/npu/model_digest.h"

namespace tessera {

namespace {

/// Weights below this signal-to-noise ratio get a warning.
constexpr double kPoorSqnrDb = 15;

struct CompileArgs {
    FileOptions file;
    std::string device, recipe = "w4a16", ranges, offload, out;
    int64_t n_layers = 0, n_threads = 0;
    std::vector<int64_t> rows = {1, 128}, contexts = {256, 1024};
    bool strict = false, tensors = false;
};

/// "128,1" as rising numbers.
Result<std::vector<int64_t>> parse_numbers(const std::string& text, int64_t most) {
    std::vector<int64_t> out;
    for (const std::string_view item : split(text, ',')) {
        const auto n = parse_int(trim(item));
        if (!n || *n < 1 || *n > most)
            return fail(ErrorCode::InvalidArgument, "expected numbers from 1 to %lld, found '%s'",
                        static_cast<long long>(most), printable(item).c_str());
        out.push_back(*n);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

/// A visitor of an operation's fields.
struct CollectWeights {
    std::vector<int32_t> ids;

    void operator()(FieldName, record::WeightId id) {
        if (id) ids.push_back(id.at);
    }
    template <class... T>
    void operator()(FieldName, const T&...) {}
};

/// The number of weights of the operations on the device, each matrix counted once.
uint64_t n_weights_of(const record::Program& program, const npu::Partition& parts) {
    CollectWeights collect;
    for (size_t i = 0; i < program.ops.size(); ++i)
        if (parts.ops[i].segment >= 0) program.ops[i].fields(collect);
    std::sort(collect.ids.begin(), collect.ids.end());
    collect.ids.erase(std::unique(collect.ids.begin(), collect.ids.end()), collect.ids.end());
    uint64_t n = 0;
    for (const int32_t id : collect.ids) {
        const Weight& w = program.weights[static_cast<size_t>(id)].view;
        n += static_cast<uint64_t>(w.n_out * w.n_in);
    }
    return n;
}

/// Observes the quantization of each matrix and collects those that lose much.
class Quantizing {
  public:
    Quantizing(uint64_t n_weights, bool tell_all)
        : n_weights_(n_weights), tell_all_(tell_all), progress_(console::byte_bar("quantizing")) {}

    Result<void> add(const record::Param<Weight>& matrix, const npu::WeightRecipe& recipe, double sqnr_db) {
        if (console::InterruptGuard::interrupted())
            return fail(ErrorCode::Cancelled, "interrupted; nothing was written");
        const Weight& w = matrix.view;
        const bool is_poor = sqnr_db < kPoorSqnrDb;
        ++n_matrices_;
        n_poor_ += is_poor;
        n_q4_0_ += w.type == Type::Q4_0 && recipe.kind == npu::WeightRecipe::Kind::Lpbq;
        if (is_poor || tell_all_)
            text_ += strf("  %-28s %-8s %-14s %6.2f dB%s\n", printable(matrix.tensor.name).c_str(),
                          std::string(type_info(w.type).name).c_str(), recipe.name().c_str(), sqnr_db,
                          is_poor ? ", low" : "");
        n_done_ += static_cast<uint64_t>(w.n_out * w.n_in);
        if (progress_) progress_(n_done_, n_weights_);
        return {};
    }

    /// Once all matrices are done: prints the warnings and the list.
    Result<void> tell() {
        progress_ = {};
        if (n_poor_ > 0)
            console::note(
                "%zu of %zu matrices have a signal-to-noise ratio below %.0f dB; a recipe may give them 8 "
                "bits",
                n_poor_, n_matrices_, kPoorSqnrDb);
        if (n_q4_0_ > 0)
            console::note(
                "%zu matrices are q4_0, whose codes are signed: \"signed-lpbq4\" loses less, and an f16 or "
                "q8_0 model the least",
                n_q4_0_);
        return text_.empty() ? Result<void>() : console::print("signal-to-noise ratio:\n" + text_);
    }

  private:
    uint64_t n_weights_, n_done_ = 0;
    bool tell_all_;
    ByteProgress progress_;
    std::string text_;
    size_t n_matrices_ = 0, n_poor_ = 0, n_q4_0_ = 0;
};

Result<void> compile(const CompileArgs& args) {
    const double start = now_seconds();
    TSR_TRY(gguf::File file, args.file.open());
    TSR_TRY(const std::string out, gguf::resolve_output(args.out, file));
    TSR_TRY(const npu::HtpDevice device, npu::open_device(args.device));
    TSR_TRY(npu::Recipe recipe, npu::open_recipe(args.recipe));
    npu::Selection selection;
    if (!args.offload.empty()) {
        TSR_TRY(selection, npu::Selection::parse(args.offload));
    }
    TSR_TRY(const npu::Ranges ranges, npu::read_ranges(args.ranges, npu::model_digest(file)));
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(const auto model, Model::bind(std::move(file), *isa->table, false));

    std::vector<record::Program> programs;
    for (const int64_t n : args.rows) programs.push_back(record_all_rows(*model, n, args.contexts.back()));
    std::vector<const record::Program*> pointers;
    for (const record::Program& program : programs) pointers.push_back(&program);
    TSR_TRY(npu::Partition parts, npu::partition(programs.front(), selection, device, recipe));
    const std::string left_out = npu::left_out_text(programs.front(), parts);
    if (parts.segments.empty() || (args.strict && !left_out.empty()))
        return fail(ErrorCode::Unsupported,
                    "expected every selected operation on %s, found these on the CPU:\n%s",
                    device.name.c_str(), left_out.c_str());

    console::note_replacement(args.out);
    const console::InterruptGuard guard(console::Signals::Ending);
    ThreadPool pool(args.n_threads > 0 ? static_cast<int>(args.n_threads) : default_thread_count());
    pool.set_abort_flag(&guard.flag());
    Quantizing quantizing(n_weights_of(programs.front(), parts), args.tensors);
    npu::QuantizedMatrices matrices(
        std::move(recipe), {.pool = &pool, .keep = false, .observer = [&quantizing](const auto&... of) {
                                return quantizing.add(of...);
                            }});
    const std::vector<int64_t> contexts = parts.attends() ? args.contexts : std::vector<int64_t>();
    auto made = npu::compile_model({pointers, parts.segments, contexts, device, ranges, matrices});
    if (!made) return tl::unexpected<Error>(console::name_output(std::move(made.error()), args.out));
    npu::CompiledModel compiled = std::move(*made);
    TSR_TRY_VOID(quantizing.tell());
    parts.set_segments(std::move(compiled.ranges));
    compiled.model.ops = npu::device_ops(programs.front(), parts);
    TSR_TRY_VOID(npu::write_context(out, compiled.model, device));
    if (!left_out.empty()) console::note("on the CPU:\n%s", left_out.c_str());
    size_t n_graphs = 0;
    for (const npu::DeviceSegment& segment : compiled.model.segments) n_graphs += segment.graphs.size();
    return console::print(
        strf("%s: %lld of %zu operations on %s, %zu segments, %zu graphs, %s of constants; %s per token are "
             "copied between CPU and NPU; compiled in %.1f s\n",
             printable(args.out, 400).c_str(), static_cast<long long>(parts.n_on_device()),
             compiled.model.ops.size(), device.name.c_str(), compiled.model.segments.size(), n_graphs,
             format_bytes(compiled.constants.size()).c_str(),
             format_bytes(static_cast<uint64_t>(parts.boundary_bytes(programs.front()))).c_str(),
             now_seconds() - start) +
        npu_sessions_text(compiled.model, device));
}

Options::Parse numbers(std::vector<int64_t>& to, int64_t most) {
    return [&to, most](const std::string& text) -> Result<void> {
        TSR_TRY(to, parse_numbers(text, most));
        return {};
    };
}

Action declare_npu_compile(Options& options) {
    auto args = std::make_shared<CompileArgs>();
    args->file.declare(options);
    options.integer("-t,--threads", args->n_threads, 0, ThreadPool::kMaxThreads,
                    "Worker threads; 0: the physical cores that this process may use. They change no byte.");
    options.group("Target");
    options.text("--npu-device", "NAME|FILE", args->device, "The NPU (tessera npu devices).");
    options.text("--npu-recipe", "NAME|FILE", args->recipe,
                 "How weights and activations are quantized. (default: w4a16)");
    options.text("--npu-ranges", "FILE", args->ranges, "The activation ranges, from tessera npu calibrate.");
    options.parsed("--ar", "LIST", numbers(args->rows, 4096),
                   "Batch sizes, each with a graph of its own: larger ones for prompts, 1 for decoding. "
                   "(default: 128,1)");
    options.parsed("--ctx", "LIST", numbers(args->contexts, 65536),
                   "Context lengths, a graph for each; the largest one is the limit. (default: 256,1024)");
    options.group("Operations");
    options.integer("--npu-layers", args->n_layers, 0, 1 << 20,
                    "Offload the first N layers only; 0: all layers and the output head.");
    options.text("--offload", "LIST", args->offload,
                 "Offload these operations only, such as blk.0-15.ffn,blk.*.attn,output.");
    options.flag("--npu-strict", args->strict, "Fail if any of these must stay on the CPU.");
    options.group("Output");
    options.text("-o,--out", "FILE", args->out, "The file to write.");
    options.flag("--tensors", args->tensors,
                 "Print the signal-to-noise ratio of all matrices, not only of the worst.");
    options.check([args, options]() -> Result<void> {
        const std::pair<const char*, const std::string*> needed[] = {{"--npu-device NAME", &args->device},
                                                                     {"--npu-ranges FILE", &args->ranges},
                                                                     {"-o FILE", &args->out}};
        for (const auto& [name, value] : needed)
            if (value->empty()) return fail(ErrorCode::InvalidArgument, "%s is needed", name);
        if (!args->offload.empty() && args->n_layers > 0)
            return fail(ErrorCode::InvalidArgument, "--npu-layers and --offload exclude each other");
        if (args->n_layers > 0) args->offload = "blk.0-" + std::to_string(args->n_layers - 1);
        return {};
    });
    return [args] { return compile(*args); };
}

}  // namespace

const Command kNpuCompile = {
    .name = "npu compile",
    .summary = "compile a model for an NPU",
    .help =
        "Writes the part of a model that an NPU runs to one file: instructions for each batch size and "
        "context length, quantized weights, and addresses. The file belongs to this device, model and "
        "recipe; the same command writes the same bytes. Operations that stay on the CPU are listed with "
        "the reasons.",
    .examples =
        "  tessera npu compile model.gguf --npu-device x-elite --npu-ranges ranges.json -o model.nctx\n"
        "  tessera npu compile model.gguf --npu-device sm8750 --npu-recipe w8a16 --npu-ranges ranges.json "
        "\\\n"
        "      --ctx 512,4096 -o model.nctx\n"
        "  tessera npu compile model.gguf --npu-device x-elite --npu-ranges ranges.json \\\n"
        "      --offload 'blk.*.ffn' -o ffn.nctx\n",
    .declare = declare_npu_compile};

}  // namespace tessera
