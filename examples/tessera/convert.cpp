// tessera convert: a Hugging Face folder to a GGUF file, in any type, in one pass. The folder is read by
// src/convert/hf_model.cpp, types are chosen and the file is written as by tessera quantize.
#include <filesystem>
#include <system_error>

#include "common/cpu.h"
#include "common/strings.h"
#include "common/threads.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/type_name.h"
#include "quants/dispatch.h"
#include "src/convert/hf_model.h"
#include "src/convert/quantize_file.h"
#include "src/engine/conversions.h"
#include "src/text/tokenizer.h"

namespace tessera {

namespace {

using convert::HfModel;
using convert::Mixture;
using convert::PlannedTensor;

struct ConvertArgs {
    std::string folder, out, type, pre;
    convert::QuantizePlanOptions plan;
    bool packed = false, dry_run = false, json = false;
    int64_t n_threads = 0;
};

/// The content of a report.
struct Plan {
    const HfModel& model;
    const Mixture& mixture;
    const std::vector<PlannedTensor>& tensors;
    uint64_t n_bytes;
};

std::string report_text(const Plan& plan) {
    std::string out =
        strf("%s, architecture %s\n", std::string(plan.model.class_name()).c_str(),
             std::string(plan.model.file().find("general.architecture")->as_string().value_or("")).c_str());
    for (size_t i = 0; i < plan.tensors.size(); i++) {
        const PlannedTensor& tensor = plan.tensors[i];
        const convert::Recipe& recipe = plan.model.recipes()[i];
        const std::string types = tensor.is_converted()
                                      ? type_name(tensor.from->type) + " to " + type_name(tensor.to)
                                      : type_name(tensor.to);
        out += strf("%-34s %-18s %-16s %10s  %s\n", printable(tensor.from->name, 400).c_str(),
                    tensor.from->shape_string().c_str(), types.c_str(), format_bytes(tensor.n_bytes).c_str(),
                    recipe.hf.empty() ? "(computed)" : printable(recipe.hf, 400).c_str());
    }
    out += strf("%s: %llu bytes (%s)\n", std::string(plan.mixture.name).c_str(),
                static_cast<unsigned long long>(plan.n_bytes), format_bytes(plan.n_bytes).c_str());
    return out;
}

Json report_json(const Plan& plan) {
    const gguf::Value* arch = plan.model.file().find("general.architecture");
    const gguf::Value* pre = plan.model.file().find("tokenizer.ggml.pre");
    Json out = {{"in", plan.model.folder()},
                {"class", std::string(plan.model.class_name())},
                {"architecture", std::string(arch->as_string().value_or(""))},
                {"pre", pre ? Json(std::string(pre->as_string().value_or(""))) : Json()},
                {"type", std::string(plan.mixture.name)},
                {"bytes", plan.n_bytes},
                {"has_weights", plan.model.has_weights()},
                {"tensors", Json::array()}};
    for (size_t i = 0; i < plan.tensors.size(); i++) {
        const PlannedTensor& tensor = plan.tensors[i];
        Json shape = Json::array();
        for (int d = 0; d < tensor.from->n_dims; d++) shape.push_back(tensor.from->shape[d]);
        out["tensors"].push_back({{"name", std::string(tensor.from->name)},
                                  {"shape", std::move(shape)},
                                  {"from", type_name(tensor.from->type)},
                                  {"to", type_name(tensor.to)},
                                  {"bytes", tensor.n_bytes},
                                  {"source", plan.model.recipes()[i].hf}});
    }
    return out;
}

/// Notes the parts that a conversion would lack.
void note_gaps(const HfModel& model) {
    if (!model.has_weights())
        console::note("no weights in the folder; shapes and types are taken from config.json");
    if (model.tokenizer_error())
        console::note("the conversion would fail at the tokenizer: %s",
                      model.tokenizer_error()->message.c_str());
}

Result<void> convert_folder(ConvertArgs& args) {
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    ThreadPool pool(args.n_threads > 0 ? static_cast<int>(args.n_threads) : default_thread_count());
    TSR_TRY(const auto model,
            HfModel::open(args.folder, pool, *isa->table, {.pre = args.pre, .plan_only = args.dry_run}));
    if (!model->tokenizer_error()) {
        // Loaded so that errors of the vocabulary show at conversion.
        TSR_TRY_VOID(text::Tokenizer::load(model->file()));
    }
    TSR_TRY(
        const Mixture* mixture,
        convert::mixture_from_name(args.type.empty() ? model->own_mixture() : std::string_view(args.type)));
    args.plan.mixture = mixture;
    args.plan.keep_quantized = true;
    TSR_TRY(const auto plan, convert::plan_quantization(model->file(), args.plan));
    TSR_TRY(const uint64_t n_bytes, convert::quantized_size(model->file(), *mixture, plan));
    if (args.dry_run) {
        note_gaps(*model);
    } else {
        console::note_replacement(args.out);
        const console::InterruptGuard guard(console::Signals::Ending);
        pool.set_abort_flag(&guard.flag());
        auto written = engine::write_converted(*model, args.out, args.packed, *mixture, plan, pool,
                                               console::byte_bar("converting"), console::byte_bar("packing"));
        if (!written)
            return tl::unexpected<Error>(console::name_output(std::move(written.error()), args.out));
    }
    const Plan report{*model, *mixture, plan, n_bytes};
    if (args.json) return console::print(json_line(report_json(report)));
    if (args.dry_run) return console::print(report_text(report));
    std::error_code ignored;
    console::note("converted %s to %s: %s, %s", printable(args.folder, 400).c_str(),
                  printable(args.out, 400).c_str(), std::string(mixture->name).c_str(),
                  format_bytes(std::filesystem::file_size(args.out, ignored)).c_str());
    return {};
}

Action declare_convert(Options& options) {
    auto args = std::make_shared<ConvertArgs>();
    options.required("DIR", args->folder, "A folder with config.json, safetensors files and a tokenizer.");
    options.text("-o,--out", "FILE", args->out,
                 "The file to write; an existing one is replaced when the new one is complete.");
    options.text(
        "--type", "TYPE", args->type,
        "Type or mixture of the matrices, as for tessera quantize (default: BF16 or F16, as in the folder).");
    options.flag("--packed", args->packed, "Write a packed model, as tessera pack does.");
    options.text("--pre", "NAME", args->pre,
                 "The pre-tokenizer (docs/reference/tokenizers.md), where the tokenizer's own rules are not "
                 "recognised.");
    options.repeated(
        "--override", "PATTERN=TYPE",
        [args](const std::string& text) -> Result<void> {
            TSR_TRY(auto override, convert::parse_type_override(text));
            args->plan.overrides.push_back(std::move(override));
            return {};
        },
        "Type of the tensors whose name matches a regular expression; the first match counts.");
    options.flag("--pure", args->plan.pure, "One type for all matrices, instead of a mixture.");
    options.flag("--allow-requantize", args->plan.allow_requantize,
                 "Also convert MXFP4 matrices, which are kept otherwise.");
    options.integer("-t,--threads", args->n_threads, 0, ThreadPool::kMaxThreads,
                    "Worker threads; 0: the physical cores that this process may use.");
    options.flag("--dry-run", args->dry_run,
                 "Write nothing; list the tensors with their sources, and the size to the byte.");
    options.flag("--json", args->json, "Print one JSON object with the tensors and sizes.");
    options.check([args]() -> Result<void> {
        if (args->out.empty() && !args->dry_run)
            return fail(ErrorCode::InvalidArgument, "expected -o FILE or --dry-run, found neither");
        if (!args->type.empty()) TSR_TRY_VOID(convert::mixture_from_name(args->type));
        return {};
    });
    return [args] { return convert_folder(*args); };
}

}  // namespace

const Command kConvert = {
    .name = "convert",
    .summary = "convert a Hugging Face folder to GGUF",
    .help =
        "Reads a Hugging Face folder (config.json, safetensors files and a tokenizer) and writes one GGUF "
        "file in any type or mixture of types. It needs about 100 MiB of memory for a model of any size.",
    .examples =
        "  tessera convert Llama-3.2-1B -o llama-3.2-1b-q4_k_m.gguf --type Q4_K_M\n"
        "  tessera convert Qwen3-4B -o qwen3-4b.packed.gguf --type Q8_0 --packed\n"
        "  tessera convert Qwen3-4B --dry-run\n",
    .declare = declare_convert};

}  // namespace tessera
