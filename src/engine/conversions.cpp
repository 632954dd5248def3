// Opens the inputs of a conversion and checks its output path. src/convert and src/model do the work.
#include "src/engine/conversions.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "common/strings.h"
#include "ggml-like/gguf/output_path.h"
#include "quants/dispatch.h"
#include "src/convert/quantize_file.h"
#include "src/model/packed_file.h"
#include "src/text/tokenizer.h"

namespace tessera::engine {

namespace {

Result<std::optional<Type>> type_option(const char* option, const std::string& name) {
    if (name.empty()) return std::optional<Type>();
    auto type = type_from_name(name);
    if (!type) return fail_in(option, std::move(type.error()));
    return std::optional(*type);
}

Result<std::vector<convert::TypeOverride>> overrides_of(const std::vector<std::string>& texts) {
    std::vector<convert::TypeOverride> out;
    for (const std::string& text : texts) {
        auto override = convert::parse_type_override(text);
        if (!override) return fail_in("override", std::move(override.error()));
        out.push_back(std::move(*override));
    }
    return out;
}

/// Writes the GGUF file to a temporary name, which is removed once the file is open, and packs that.
Result<void> write_packed(const convert::HfModel& model, const std::string& out,
                          const convert::Mixture& mixture, std::span<const convert::PlannedTensor> plan,
                          const convert::QuantizeContext& context, const ByteProgress& packing) {
    const std::string stock = strf("%s.%ld.stock", out.c_str(), static_cast<long>(::getpid()));
    if (auto written = convert::quantize_file(model.file(), stock, mixture, plan, context); !written) {
        // The user knows only the name of the result.
        std::string& message = written.error().message;
        if (const size_t at = message.find(stock); at != std::string::npos)
            message.replace(at, stock.size(), out);
        return tl::unexpected<Error>(std::move(written.error()));
    }
    auto file = gguf::File::open(stock);
    std::error_code ignored;
    std::filesystem::remove(stock, ignored);
    if (!file) return tl::unexpected<Error>(file.error());
    return pack_file(std::move(*file), out,
                     {.pool = context.pool, .kernels = context.kernels, .progress = packing});
}

/// A plan, with the objects that it refers to.
struct Plan {
    gguf::File in;
    std::optional<convert::Importance> importance = {};
    convert::QuantizePlanOptions options = {};
    std::vector<convert::PlannedTensor> tensors = {};
};

Result<std::unique_ptr<Plan>> plan_of(const std::string& in, const QuantizeJob& job) {
    TSR_TRY(gguf::File file, gguf::File::open(in));
    std::unique_ptr<Plan> plan(new Plan{.in = std::move(file)});
    TSR_TRY(plan->options.mixture, convert::mixture_from_name(job.type));
    if (!job.importance.empty()) {
        TSR_TRY(const gguf::File matrix, gguf::File::open(job.importance));
        TSR_TRY(plan->importance, convert::Importance::read(matrix));
        plan->options.importance = &*plan->importance;
    }
    TSR_TRY(plan->options.output_type, type_option("output_type", job.output_type));
    TSR_TRY(plan->options.embedding_type, type_option("embedding_type", job.embedding_type));
    TSR_TRY(plan->options.overrides, overrides_of(job.overrides));
    plan->options.pure = job.pure;
    plan->options.allow_requantize = job.allow_requantize;
    TSR_TRY(plan->tensors, convert::plan_quantization(plan->in, plan->options));
    return plan;
}

}  // namespace

Result<void> quantize(const std::string& in, const std::string& out, const QuantizeJob& job, ThreadPool& pool,
                      const ByteProgress& progress) {
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(const auto plan, plan_of(in, job));
    TSR_TRY(const std::string target, gguf::resolve_output(out, plan->in));
    const convert::QuantizeContext context{
        .pool = pool, .kernels = *isa->table, .measures = false, .progress = progress};
    TSR_TRY_VOID(convert::quantize_file(plan->in, target, *plan->options.mixture, plan->tensors, context));
    return {};
}

Result<uint64_t> quantized_size(const std::string& in, const QuantizeJob& job) {
    TSR_TRY(const auto plan, plan_of(in, job));
    return convert::quantized_size(plan->in, *plan->options.mixture, plan->tensors);
}

Result<void> write_converted(const convert::HfModel& model, const std::string& out, bool packed,
                             const convert::Mixture& mixture, std::span<const convert::PlannedTensor> plan,
                             ThreadPool& pool, const ByteProgress& progress, const ByteProgress& packing) {
    namespace fs = std::filesystem;
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(const std::string target, gguf::resolve_output(out, model.file()));
    std::error_code ignored;
    for (fs::directory_iterator at(model.folder(), ignored), end; !ignored && at != end;
         at.increment(ignored))
        if (std::error_code error;
            fs::equivalent(at->path(), target, error) && at->path().extension() != ".gguf")
            return fail(ErrorCode::InvalidArgument,
                        "output: '%s' is a file of the input; expected another one",
                        printable(out, 400).c_str());
    const convert::QuantizeContext context{.pool = pool,
                                           .kernels = *isa->table,
                                           .measures = false,
                                           .progress = progress,
                                           .strict = true,
                                           .source = &model.rows()};
    if (packed) return write_packed(model, target, mixture, plan, context, packing);
    TSR_TRY_VOID(convert::quantize_file(model.file(), target, mixture, plan, context));
    return {};
}

Result<void> convert_folder(const std::string& folder, const std::string& out, const ConvertJob& job,
                            ThreadPool& pool, const ByteProgress& progress, const ByteProgress& packing) {
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(const auto model, convert::HfModel::open(folder, pool, *isa->table, {.pre = job.pre}));
    // Errors in the vocabulary are reported now, not when the file is used.
    TSR_TRY_VOID(text::Tokenizer::load(model->file()));
    convert::QuantizePlanOptions options;
    TSR_TRY(options.mixture,
            convert::mixture_from_name(job.type.empty() ? model->own_mixture() : std::string_view(job.type)));
    TSR_TRY(options.overrides, overrides_of(job.overrides));
    options.pure = job.pure;
    options.allow_requantize = job.allow_requantize;
    options.keep_quantized = true;
    TSR_TRY(const auto plan, convert::plan_quantization(model->file(), options));
    return write_converted(*model, out, job.packed, *options.mixture, plan, pool, progress, packing);
}

Result<void> repack(const std::string& in, const std::string& out, bool packs, ThreadPool& pool,
                    const ByteProgress& progress) {
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(gguf::File file, gguf::File::open(in));
    TSR_TRY(const std::string target, gguf::resolve_output(out, file));
    const RepackContext context{.pool = pool, .kernels = *isa->table, .progress = progress};
    return packs ? pack_file(std::move(file), target, context) : unpack_file(file, target, context);
}

}  // namespace tessera::engine
