// Opens what a conversion reads and checks what it is to write. The work is src/convert's and src/model's.
#include "src/engine/conversions.h"

#include <optional>

#include "ggml-like/gguf/output_path.h"
#include "quants/dispatch.h"
#include "src/convert/quantize_file.h"
#include "src/model/packed_file.h"

namespace tessera::engine {

namespace {

Result<std::optional<Type>> type_option(const char* option, const std::string& name) {
    if (name.empty()) return std::optional<Type>();
    auto type = type_from_name(name);
    if (!type) return fail_in(option, std::move(type.error()));
    return std::optional(*type);
}

/// A plan, with all that it refers to.
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
    for (const std::string& text : job.overrides) {
        auto override = convert::parse_type_override(text);
        if (!override) return fail_in("override", std::move(override.error()));
        plan->options.overrides.push_back(std::move(*override));
    }
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

Result<void> repack(const std::string& in, const std::string& out, bool packs, ThreadPool& pool,
                    const ByteProgress& progress) {
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(gguf::File file, gguf::File::open(in));
    TSR_TRY(const std::string target, gguf::resolve_output(out, file));
    const RepackContext context{.pool = pool, .kernels = *isa->table, .progress = progress};
    return packs ? pack_file(std::move(file), target, context) : unpack_file(file, target, context);
}

}  // namespace tessera::engine
