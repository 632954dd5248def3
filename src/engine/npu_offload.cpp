// Opens or compiles a model for the NPU, and creates the backends that run it. A model that is compiled when
// first needed has graphs for 128 rows and for one, and buckets of positions up to the context size, which
// are also the defaults of `tessera npu compile`.
#include "src/engine/npu_offload.h"

#include <algorithm>
#include <set>

#include "common/cpu.h"
#include "common/log.h"
#include "common/strings.h"
#include "src/forward/record.h"
#include "src/model/pack.h"
#include "src/npu/model_digest.h"
#include "src/npu/phase_cost.h"
#include "src/npu/tile_kernels.h"

namespace tessera::engine {

namespace {

/// Rows of a long pass; the last pass of a prompt is padded.
constexpr int64_t kRows = 128;
/// Positions of the first bucket.
constexpr int64_t kBucket = 256;

struct AddWeights {
    const record::Program& program;
    std::set<const std::byte*>& data;

    void operator()(FieldName, record::WeightId id) {
        if (id) data.insert(program[id].view.data);
    }
    template <class... Other>
    void operator()(FieldName, const Other&...) {}
};

}  // namespace

/// A compiled file refers to operations by index; checks that they are those of the model.
Result<void> EmulatedNpuModel::read_context(const std::string& path, uint64_t digest) {
    TSR_TRY(context_, npu::ContextFile::open(path, {}));
    TSR_TRY_VOID(context_->expect_model(digest));
    const npu::DeviceModel& compiled = context_->model();
    const record::Program program = record_all_rows(*model_, 1, 1);
    const auto n_ops = static_cast<int32_t>(program.ops.size());
    const auto wrong = [&] {
        return fail(ErrorCode::Malformed,
                    "'%s': expected the segments of this model, found others; compile it again",
                    printable(path, 400).c_str());
    };
    if (!compiled.ops.empty() && std::ssize(compiled.ops) != n_ops) return wrong();
    parts_.ops.resize(program.ops.size());
    int32_t next = 0;
    for (const npu::DeviceSegment& segment : compiled.segments) {
        if (segment.first_op < next || segment.last_op < segment.first_op || segment.last_op >= n_ops)
            return wrong();
        next = segment.last_op + 1;
        npu::DeviceRange range = npu::range_of(program, segment.first_op, segment.last_op);
        for (const npu::DeviceGraph& graph : segment.graphs) {
            const auto fits = [&](const std::vector<npu::Port>& ports,
                                  const std::vector<record::ValueId>& values) {
                return std::equal(ports.begin(), ports.end(), values.begin(), values.end(),
                                  [&](const npu::Port& port, record::ValueId id) {
                                      return port.dim == program[program[id].slot].dim;
                                  });
            };
            if (!fits(graph.inputs, range.inputs) || !fits(graph.outputs, range.outputs)) return wrong();
        }
        if (range.attends != segment.attends) return wrong();
        for (int32_t i = segment.first_op; i <= segment.last_op; ++i)
            parts_.ops[static_cast<size_t>(i)].segment = static_cast<int32_t>(parts_.segments.size());
        parts_.segments.push_back(std::move(range));
    }
    for (size_t i = 0; i < compiled.ops.size(); ++i)
        if (parts_.ops[i].segment < 0)
            parts_.ops[i] = npu::placement_of(program.ops[i], -1, compiled.ops[i].reason);
    left_out_ = npu::left_out_text(program, parts_);
    device_ = context_->device();
    return {};
}

Result<void> EmulatedNpuModel::prepare(const NpuOptions& options, uint64_t digest) {
    TSR_TRY(device_, npu::open_device(options.device));
    TSR_TRY(ranges_, npu::read_ranges(options.ranges, digest));
    npu::Selection selection;
    if (!options.offload.empty()) {
        TSR_TRY(selection, npu::Selection::parse(options.offload));
    }
    const record::Program program = record_all_rows(*model_, 1, 1);
    TSR_TRY(parts_, npu::partition(program, selection, device_, recipe_));
    left_out_ = npu::left_out_text(program, parts_);
    return {};
}

Result<std::shared_ptr<EmulatedNpuModel>> EmulatedNpuModel::create(gguf::File file,
                                                                   const kernels::KernelTable& kernels,
                                                                   const NpuOptions& options) {
    std::shared_ptr<EmulatedNpuModel> out(new EmulatedNpuModel());
    TSR_TRY(out->recipe_, npu::open_recipe(options.recipe));
    const uint64_t digest = npu::model_digest(file);
    const bool compiles = options.file.empty();
    TSR_TRY(out->model_, Model::bind(std::move(file), kernels, !compiles));
    if (compiles)
        TSR_TRY_VOID(out->prepare(options, digest));
    else
        TSR_TRY_VOID(out->read_context(options.file, digest));
    if (out->parts_.segments.empty() || (options.strict && !out->left_out_.empty()))
        return fail(ErrorCode::Unsupported,
                    "expected all selected operations on %s, found these on the CPU:\n%s",
                    out->device_.name.c_str(), out->left_out_.c_str());
    const record::Program program = record_all_rows(*out->model_, 1, 1);
    const size_t n_sessions = out->context_ ? out->context_->model().sessions.size() : 1;
    const std::string sessions = n_sessions > 1 ? strf(" and %zu sessions", n_sessions) : "";
    out->description_ =
        strf("%lld of %zu operations on %s, in %zu segments%s; %s per token between CPU and NPU",
             static_cast<long long>(out->parts_.n_on_device()), program.ops.size(),
             printable(out->device_.name).c_str(), out->parts_.segments.size(), sessions.c_str(),
             format_bytes(static_cast<uint64_t>(out->parts_.boundary_bytes(program))).c_str());
    out->fast_ = options.fast;
    TSR_TRY_VOID(out->choose_phases(program, options.phase));
    return out;
}

/// The KV cache is on one side: if the device has it, the device computes all tokens.
Result<void> EmulatedNpuModel::choose_phases(const record::Program& program, NpuPhase wanted) {
    if (wanted == NpuPhase::Both) return {};
    if (owns_kv_cache()) {
        if (wanted != NpuPhase::Auto)
            return fail(ErrorCode::InvalidArgument,
                        "npu phase: expected both or auto, since the NPU has the KV cache (not with the "
                        "offload blk.*.ffn), found %s",
                        std::string(npu_phase_name(wanted)).c_str());
        description_ += "; auto: both phases, since the NPU has the KV cache";
        return {};
    }
    if (wanted != NpuPhase::Auto) {
        prefill_ = wanted == NpuPhase::Prefill;
        decode_ = wanted == NpuPhase::Decode;
        description_ += prefill_ ? "; prefill only" : "; decode only";
        return {};
    }
    const npu::DeviceModel* compiled = context_ ? &context_->model() : nullptr;
    std::span<const npu::DeviceRange> ranges = parts_.segments;
    if (!compiled) {
        ThreadPool pool(default_thread_count());
        TSR_TRY(const auto made, compile(kRows, pool));
        compiled = &made->model;  // kept alive by compiled_
        ranges = made->ranges;
    }
    TSR_TRY(const npu::PhaseCost prompt, npu::phase_cost(*compiled, device_, program, ranges, kRows));
    TSR_TRY(const npu::PhaseCost row, npu::phase_cost(*compiled, device_, program, ranges, 1));
    prefill_ = prompt.is_faster();
    decode_ = row.is_faster();
    const char* found = !prefill_ && !decode_ ? "nothing"
                        : !decode_            ? "prefill only"
                        : !prefill_           ? "decode only"
                                              : "both phases";
    description_ += strf(
        "; auto: %s, by estimated times: %lld rows %.2f ms, on the CPU %.2f ms; one row %.2f ms, on the CPU "
        "%.2f ms",
        found, static_cast<long long>(kRows), prompt.device_us / 1e3, prompt.processor_us / 1e3,
        row.device_us / 1e3, row.processor_us / 1e3);
    return {};
}

std::vector<bool> EmulatedNpuModel::unused_weights() const {
    if (!prefill_ || !decode_) return {};
    const record::Program program = record_all_rows(*model_, 1, 1);
    std::set<const std::byte*> used;
    for (size_t i = 0; i < program.ops.size(); ++i) {
        const record::Op& op = program.ops[i];
        // Embedding look-up works on unpacked rows.
        if (parts_.ops[i].segment < 0 && !std::holds_alternative<record::EmbedOp>(op.verb))
            op.fields(AddWeights{program, used});
    }
    std::vector<bool> unused;
    for (const Weight* weight : weights_to_pack(model_->weights()))
        unused.push_back(!used.contains(weight->data));
    return unused;
}

Result<std::shared_ptr<const npu::CompiledModel>> EmulatedNpuModel::compile(int64_t n_ctx, ThreadPool& pool) {
    if (context_)
        return fail(ErrorCode::InvalidArgument,
                    "expected a model that is not compiled, found a compiled one");
    if (!owns_kv_cache()) n_ctx = std::min(n_ctx, kRows);  // the context size matters for attention only
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const npu::CompiledModel>& compiled_for_ctx = compiled_[n_ctx];
    if (!compiled_for_ctx) {
        TSR_TRY(npu::CompiledModel compiled, compile_for(n_ctx, pool));
        compiled_for_ctx = std::make_shared<const npu::CompiledModel>(std::move(compiled));
    }
    return compiled_for_ctx;
}

Result<npu::CompiledModel> EmulatedNpuModel::compile_for(int64_t n_ctx, ThreadPool& pool) const {
    const int64_t n_rows = std::min(kRows, n_ctx);
    const int64_t positions = (n_ctx + 31) / 32 * 32;
    std::vector<int64_t> contexts;
    if (positions > 2 * kBucket) contexts.push_back(kBucket);
    contexts.push_back(positions);
    std::vector<record::Program> programs;
    for (const int64_t n_tok : {int64_t{1}, n_rows})
        if (programs.empty() || n_tok > 1) programs.push_back(record_all_rows(*model_, n_tok, n_ctx));
    std::vector<const record::Program*> pointers;
    for (const record::Program& program : programs) pointers.push_back(&program);
    npu::QuantizedMatrices matrices(recipe_, {.pool = &pool, .keep = false});
    TSR_TRY(npu::CompiledModel compiled,
            npu::compile_model({pointers, parts_.segments, contexts, device_, ranges_, matrices}));
    if (compiled.model.sessions.size() > 1)
        log::info("npu: %zu sessions on %s, and so %zu segments", compiled.model.sessions.size(),
                  printable(device_.name).c_str(), compiled.ranges.size());
    npu::Partition parts = parts_;
    parts.set_segments(compiled.ranges);
    compiled.model.ops = npu::device_ops(programs.front(), parts);
    return compiled;
}

/// Checks the context size of a model that was compiled ahead of time.
Result<void> EmulatedNpuModel::check_context(const Model& model, int64_t n_ctx) const {
    const int64_t most = context_->model().n_ctx;
    if (!owns_kv_cache() || (n_ctx <= most && model.rope(n_ctx).freq == model.rope(most).freq)) return {};
    return fail(ErrorCode::InvalidArgument,
                "context size: expected at most the %lld positions that the NPU was compiled for, found %lld",
                static_cast<long long>(most), static_cast<long long>(n_ctx));
}

Result<NpuNeeds> EmulatedNpuModel::needs(const Model& model, int n_threads, int64_t n_ctx, int64_t max_tok,
                                         int64_t max_out) const {
    if (!context_)
        return fail(
            ErrorCode::InvalidArgument,
            "expected a model that was compiled ahead of time, found one that is compiled when first needed");
    TSR_TRY_VOID(check_context(model, n_ctx));
    const npu::DeviceModel& compiled = context_->model();
    const npu::DeviceRun::Needs device = npu::DeviceRun::needs(compiled, n_threads, copies());
    const uint64_t results =
        npu::NpuBackend::result_bytes(record_all_rows(model, 1, n_ctx), parts_.segments, max_tok, max_out);
    NpuNeeds out;
    out.arena = device.arena;
    out.cache = device.cache;
    out.vtcm = device.vtcm;
    out.rows = results + device.scratch + device.streams;
    out.mapped = context_->file_bytes();
    // Layers whose KV cache is on the CPU have 0 heads here.
    out.all_kv = !compiled.caches.empty() &&
                 std::all_of(compiled.caches.begin(), compiled.caches.end(),
                             [](const npu::DeviceCache& cache) { return cache.n_head > 0; });
    return out;
}

Result<std::unique_ptr<NpuSession>> EmulatedNpuModel::start(const Model& model, CpuBackend& cpu,
                                                            int64_t n_ctx, int64_t max_tok, int64_t max_out) {
    std::unique_ptr<EmulatedNpuSession> out(new EmulatedNpuSession());
    out->model_ = shared_from_this();
    out->owns_kv_cache_ = owns_kv_cache();
    out->prefill_ = prefill_;
    out->decode_ = decode_;
    out->program_ = record_all_rows(model, 1, n_ctx);
    const npu::DeviceModel* compiled = context_ ? &context_->model() : nullptr;
    std::span<const npu::DeviceRange> ranges = parts_.segments;
    if (!compiled) {
        TSR_TRY(out->in_place_, compile(n_ctx, cpu.pool()));
        compiled = &out->in_place_->model;
        ranges = out->in_place_->ranges;
    } else {
        TSR_TRY_VOID(check_context(model, n_ctx));
    }
    out->compiled_ = compiled;
    TSR_TRY(out->runner_,
            npu::DeviceRun::create(*compiled, npu::tile_kernels(cpu.kernels().name), cpu.pool(), copies()));
    TSR_TRY(out->backend_,
            npu::NpuBackend::create(cpu, out->program_, ranges, *out->runner_, max_tok, max_out));
    return out;
}

Result<std::shared_ptr<NpuModel>> create_npu_model(gguf::File file, const kernels::KernelTable& kernels,
                                                   const NpuOptions& options) {
    return EmulatedNpuModel::create(std::move(file), kernels, options);
}

}  // namespace tessera::engine
