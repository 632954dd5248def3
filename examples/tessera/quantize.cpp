// tessera quantize: a model's weights in a smaller type or a mixture of types. The mixtures and the
// conversion are in src/convert/quantize_*.
#include <cmath>
#include <map>
#include <optional>

#include "common/cpu.h"
#include "common/strings.h"
#include "common/threads.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/type_name.h"
#include "ggml-like/gguf/output_path.h"
#include "quants/dispatch.h"
#include "src/convert/quantize_file.h"

namespace tessera {

namespace {

using convert::Mixture;
using convert::PlannedTensor;
using convert::TensorError;

struct QuantizeArgs {
    std::string in, out, type, importance;
    convert::QuantizePlanOptions plan;
    bool dry_run = false, errors = false, json = false;
    int64_t n_threads = 0;
};

double relative(double square, double norm) { return norm > 0 ? std::sqrt(square / norm) : 0; }

/// The content of a report.
struct QuantizeReport {
    const gguf::File& in;
    const Mixture& mixture;
    const std::vector<PlannedTensor>& plan;
    const std::vector<TensorError>& errors;  // empty: not measured
    uint64_t n_bytes;

    struct Totals {
        int64_t n_weights = 0, n_substituted = 0;
        uint64_t n_bytes = 0;
        double bits_per_weight() const {
            return n_weights ? 8.0 * static_cast<double>(n_bytes) / static_cast<double>(n_weights) : 0;
        }
    };
    Totals totals() const {
        Totals sum;
        for (const PlannedTensor& tensor : plan) {
            sum.n_weights += tensor.from->n_elements();
            sum.n_bytes += tensor.n_bytes;
            sum.n_substituted += tensor.to != tensor.wished;
        }
        return sum;
    }
};

Json report_json(const QuantizeReport& report) {
    const QuantizeReport::Totals totals = report.totals();
    Json out = {{"in", report.in.path()},
                {"type", std::string(report.mixture.name)},
                {"bytes_in", report.in.total_bytes()},
                {"bytes", report.n_bytes},
                {"parameters", totals.n_weights},
                {"bits_per_weight", rounded(totals.bits_per_weight(), 4)},
                {"substituted", totals.n_substituted},
                {"tensors", Json::array()}};
    for (size_t i = 0; i < report.plan.size(); i++) {
        const PlannedTensor& tensor = report.plan[i];
        Json row = {{"name", std::string(tensor.from->name)},
                    {"from", type_name(tensor.from->type)},
                    {"to", type_name(tensor.to)},
                    {"bytes", tensor.n_bytes}};
        if (tensor.to != tensor.wished) row["instead_of"] = type_name(tensor.wished);
        if (tensor.is_converted()) row["importance"] = !tensor.importance.empty();
        if (!report.errors.empty() && tensor.is_converted()) {
            const TensorError& error = report.errors[i];
            row["error"] = relative(error.square, error.norm);
            row["weighted_error"] = relative(error.weighted_square, error.weighted_norm);
            row["largest_error"] = error.largest;
            row["finite"] = error.is_finite;
        }
        out["tensors"].push_back(std::move(row));
    }
    return out;
}

std::string report_text(const QuantizeReport& report) {
    std::string out;
    for (size_t i = 0; i < report.plan.size(); i++) {
        const PlannedTensor& tensor = report.plan[i];
        const std::string types = tensor.is_converted()
                                      ? type_name(tensor.from->type) + " to " + type_name(tensor.to)
                                      : type_name(tensor.to);
        out += strf("%-42s %-18s %-18s %10s", printable(tensor.from->name, 400).c_str(),
                    tensor.from->shape_string().c_str(), types.c_str(), format_bytes(tensor.n_bytes).c_str());
        if (!report.errors.empty() && tensor.is_converted()) {
            const TensorError& error = report.errors[i];
            out += strf("  error %.5f", relative(error.square, error.norm));
            if (!tensor.importance.empty())
                out += strf(", weighted %.5f", relative(error.weighted_square, error.weighted_norm));
            if (!error.is_finite) out += ", NaN or infinite weights";
        }
        if (tensor.to != tensor.wished) out += strf("  instead of %s", type_name(tensor.wished).c_str());
        out += "\n";
    }
    const QuantizeReport::Totals totals = report.totals();
    out += strf("%s: %llu bytes (%s), %.3f bits per weight\n", std::string(report.mixture.name).c_str(),
                static_cast<unsigned long long>(report.n_bytes), format_bytes(report.n_bytes).c_str(),
                totals.bits_per_weight());
    return out;
}

/// Warns of losses that the result does not show.
void warn(const QuantizeArgs& args, const std::vector<PlannedTensor>& plan) {
    if (args.plan.mixture->wants_importance && !args.plan.importance)
        console::note("%s loses much quality without an importance matrix (--imatrix FILE)",
                      std::string(args.plan.mixture->name).c_str());
    int64_t n_missing = 0;
    for (const PlannedTensor& tensor : plan)
        n_missing += args.plan.importance && tensor.is_converted() && tensor.importance.empty();
    if (n_missing > 0)
        console::note("%lld matrices are not in the importance matrix; their inputs get equal weights",
                      static_cast<long long>(n_missing));
}

Result<std::vector<TensorError>> write(const QuantizeArgs& args, const gguf::File& in,
                                       const std::vector<PlannedTensor>& plan) {
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(const std::string out, gguf::resolve_output(args.out, in));
    console::note_replacement(args.out);
    ThreadPool pool(args.n_threads > 0 ? static_cast<int>(args.n_threads) : default_thread_count());
    const console::InterruptGuard guard(console::Signals::Ending);
    pool.set_abort_flag(&guard.flag());
    const convert::QuantizeContext context{.pool = pool,
                                           .kernels = *isa->table,
                                           .importance = args.plan.importance,
                                           .measures = args.errors || args.json,
                                           .progress = console::byte_bar("quantizing")};
    auto errors = convert::quantize_file(in, out, *args.plan.mixture, plan, context);
    if (!errors) errors.error() = console::name_output(std::move(errors.error()), args.out);
    return errors;
}

Result<void> quantize(QuantizeArgs& args) {
    TSR_TRY(const gguf::File in, gguf::File::open(args.in));
    std::optional<convert::Importance> importance;
    if (!args.importance.empty()) {
        TSR_TRY(const gguf::File file, gguf::File::open(args.importance));
        TSR_TRY(importance, convert::Importance::read(file));
        args.plan.importance = &*importance;
    }
    TSR_TRY(const auto plan, convert::plan_quantization(in, args.plan));
    TSR_TRY(const uint64_t n_bytes,
            convert::quantized_size(in, *args.plan.mixture, plan, args.plan.importance));
    warn(args, plan);
    std::vector<TensorError> errors;
    if (!args.dry_run) {
        TSR_TRY(errors, write(args, in, plan));
    }
    const bool measured = !args.dry_run && (args.errors || args.json);
    const QuantizeReport report{in, *args.plan.mixture, plan, measured ? errors : std::vector<TensorError>(),
                                n_bytes};
    if (args.json) return console::print(json_line(report_json(report)));
    if (args.dry_run || args.errors) return console::print(report_text(report));
    const QuantizeReport::Totals totals = report.totals();
    console::note("quantized %s (%s) to %s (%s, %.2f bits per weight)", printable(args.in, 400).c_str(),
                  format_bytes(in.total_bytes()).c_str(), printable(args.out, 400).c_str(),
                  format_bytes(n_bytes).c_str(), totals.bits_per_weight());
    return {};
}

std::string mixture_list() {
    std::string list = "One of";
    for (const Mixture& mixture : convert::all_mixtures()) list += " " + std::string(mixture.name);
    return list + ".";
}

Options::Parse type_into(std::optional<Type>& value) {
    return [&value](const std::string& text) -> Result<void> {
        TSR_TRY(const Type type, type_from_name(text));
        if (!type_info(type).quantize)
            return fail(ErrorCode::Unsupported, "there is no encoder for type %s", type_name(type).c_str());
        value = type;
        return {};
    };
}

Action declare_quantize(Options& options) {
    auto args = std::make_shared<QuantizeArgs>();
    static const std::string types = mixture_list();
    options.required("IN", args->in, "A GGUF model in F16, BF16 or F32; of a split model the first part.");
    options.required("OUT", args->out,
                     "The file to write; an existing one is replaced when the new one is complete.");
    options.required("TYPE", args->type, types.c_str());
    options.integer("-t,--threads", args->n_threads, 0, ThreadPool::kMaxThreads,
                    "Worker threads; 0: the physical cores that this process may use.");
    options.group("Which types");
    options.text("--imatrix", "FILE", args->importance,
                 "An importance matrix (tessera imatrix): the weight of each input of a matrix.");
    options.flag("--pure", args->plan.pure, "One type for all matrices, instead of a mixture.");
    options.parsed("--output-type", "TYPE", type_into(args->plan.output_type), "Type of the output matrix.");
    options.parsed("--embedding-type", "TYPE", type_into(args->plan.embedding_type),
                   "Type of the embedding table.");
    options.repeated(
        "--override", "PATTERN=TYPE",
        [args](const std::string& text) -> Result<void> {
            TSR_TRY(auto override, convert::parse_type_override(text));
            args->plan.overrides.push_back(std::move(override));
            return {};
        },
        "Type of the tensors whose name matches a regular expression; the first match counts.");
    options.flag("--allow-requantize", args->plan.allow_requantize,
                 "Also quantize weights that are quantized already, which loses more quality.");
    options.group("Output");
    options.flag("--dry-run", args->dry_run, "Write nothing; list the types and the size to the byte.");
    options.flag("--errors", args->errors,
                 "Print each tensor's relative error: sqrt(sum (y - x)^2 / sum x^2).");
    options.flag("--json", args->json, "Print one JSON object with tensors, sizes and errors.");
    options.check([args]() -> Result<void> {
        TSR_TRY(args->plan.mixture, convert::mixture_from_name(args->type));
        return {};
    });
    return [args] { return quantize(*args); };
}

}  // namespace

const Command kQuantize = {
    .name = "quantize",
    .summary = "store a model with fewer bits per weight",
    .help =
        "Writes a model with its matrices in a smaller type, choosing codes that minimize the squared error. "
        "Most types are mixtures: matrices that matter more get more bits.",
    .examples =
        "  tessera quantize model-f16.gguf model-q4_k_m.gguf Q4_K_M\n"
        "  tessera quantize model-f16.gguf out.gguf Q4_K_M --override 'blk\\.0\\..*=q8_0'\n"
        "  tessera quantize model-f16.gguf out.gguf IQ3_XXS --imatrix imatrix.gguf --errors\n"
        "  tessera quantize model-f16.gguf out.gguf Q2_K --dry-run\n",
    .declare = declare_quantize};

}  // namespace tessera
