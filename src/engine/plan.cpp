// Adds up the sizes that the owners of buffers report: the model its weights, Activations and CpuBackend
// their buffers, the cache layout its pages. Memory that is already resident (program, vocabulary, metadata)
// is measured, not computed. A buffer counts by its bytes even with huge pages: its mapping ends at the end
// of the buffer, so its last part is in small pages.
#include "src/engine/plan.h"

#include <algorithm>

#include "common/cpu.h"
#include "common/strings.h"
#include "src/engine/npu_model.h"
#include "src/sample/candidates.h"

namespace tessera::engine {

namespace {

/// Part of the free memory is reserved for unplanned use: stacks, requests, the system.
constexpr uint64_t kSpareShare = 32;

/// The longest pass of a session or engine.
struct PassSize {
    int64_t n_tok, n_out;
};

PassSize pass_of(const MemoryDemand& demand, int64_t n_ctx) {
    const int64_t n_tok = std::min(demand.one.n_batch, n_ctx * demand.n_slots);
    return {n_tok, std::max(std::min(demand.one.max_out, n_tok), demand.n_slots)};
}

/// Bytes of pages and states of n contexts.
uint64_t bytes_of_contexts(const CachePlan& one, int64_t n) {
    return static_cast<uint64_t>(one.n_pages * n) * one.layout.page_bytes + one.state_bytes(n);
}

}  // namespace

Result<CacheSize> plan_cache_size(const CachePlan& one, const EngineOptions& options, uint64_t room) {
    uint64_t budget = options.kv_bytes;
    if (budget == 0) {
        const int64_t n = options.max_running;
        budget = room - room / kSpareShare;
        if (room == 0 || budget >= bytes_of_contexts(one, n))
            return CacheSize{one.n_pages * n, one.n_states * n};
        budget = std::max(budget, bytes_of_contexts(one, 1));
    }
    if (budget < bytes_of_contexts(one, 1))
        return fail(ErrorCode::InvalidArgument,
                    "KV cache: expected at least %llu bytes for one context of %lld, found %llu",
                    static_cast<unsigned long long>(bytes_of_contexts(one, 1)),
                    static_cast<long long>(one.n_ctx), static_cast<unsigned long long>(options.kv_bytes));
    CacheSize size;
    if (one.n_states > 0) {
        const uint64_t initial = one.state_bytes(0);
        const double n_contexts =
            static_cast<double>(budget - initial) / static_cast<double>(bytes_of_contexts(one, 1) - initial);
        size.n_slots = static_cast<int64_t>(n_contexts * static_cast<double>(one.n_states));
        budget -= kv::StatePool::bytes(one.states, size.n_slots);
    }
    size.n_pages = static_cast<int64_t>(budget / one.layout.page_bytes);
    return size;
}

Result<MemoryPlan> plan_memory(const Model& model, const MemoryDemand& demand, int n_threads,
                               uint64_t resident) {
    const SessionOptions& one = demand.one;
    const int64_t n_slots = demand.n_slots;
    TSR_TRY_VOID(check_range("slots", n_slots, 1, kMaxRunning));
    TSR_TRY(const CachePlan cache,
            demand.of_engine ? plan_completion_cache(model, one) : plan_cache(model, one));
    MemoryPlan plan;
    plan.n_pages = cache.n_pages * n_slots;
    plan.n_ctx = cache.n_ctx;
    plan.n_slots = n_slots;
    const PassSize pass = pass_of(demand, cache.n_ctx);
    plan.page = cache.layout.page_bytes;
    plan.process = current_rss_bytes();
    plan.packed = model.packed_bytes();
    plan.mapped = model.mapped_bytes();
    plan.process -= std::min({plan.process, plan.mapped, resident});
    plan.cache = static_cast<uint64_t>(plan.n_pages) * plan.page;
    plan.states = cache.state_bytes(n_slots);
    plan.activations = Activations::bytes(model, pass.n_tok, pass.n_out, demand.one.all_floats);
    plan.scratch = CpuBackend::scratch_bytes(backend_limits(model, pass.n_tok), n_threads);
    plan.sampling = sample::Candidates::bytes(static_cast<size_t>(model.hparams().n_vocab)) *
                    static_cast<uint64_t>(n_slots);
    return plan;
}

Result<void> add_npu(const Model& model, const MemoryDemand& demand, const NpuModel& npu, uint64_t program,
                     int n_threads, MemoryPlan& plan) {
    if (npu.owns_kv_cache() && demand.n_slots != 1)
        return fail(ErrorCode::InvalidArgument,
                    "slots: expected 1, since the NPU has the KV cache of one sequence, found %lld",
                    static_cast<long long>(demand.n_slots));
    const PassSize pass = pass_of(demand, plan.n_ctx);
    TSR_TRY(const NpuNeeds needs, npu.needs(model, n_threads, plan.n_ctx, pass.n_tok, pass.n_out));
    plan.npu = {.program = program,
                .mapped = needs.mapped,
                .arena = needs.arena,
                .cache = needs.cache,
                .vtcm = needs.vtcm,
                .rows = needs.rows,
                .all_kv = needs.all_kv};
    if (needs.all_kv) plan.cache = 0;
    plan.activations = Activations::bytes(model, pass.n_tok, pass.n_out, true);  // segments read floats
    return {};
}

Result<MemoryPlan> plan_file(const std::string& path, const LoadOptions& options, const MemoryDemand& demand,
                             int n_threads) {
    TSR_TRY(const kernels::IsaInfo* isa, choose_kernels(options.isa));
    TSR_TRY(gguf::File file, gguf::File::open(path));
    // Resident as long as the model, so counted with the process.
    TSR_TRY(const auto tokenizer, load_tokenizer(file));
    TSR_TRY(const auto model, bind_weights(std::move(file), *isa->table, options));
    return plan_memory(*model, demand, n_threads);
}

std::string to_text(const MemoryPlan& plan) {
    std::string out;
    const auto row = [&out](const char* name, uint64_t n_bytes, const std::string& note) {
        out += strf("%-13s %10s  %s\n", name, format_bytes(n_bytes).c_str(), note.c_str());
    };
    row("program", plan.process, "code, vocabulary and metadata; already resident");
    if (plan.packed > 0) row("weights", plan.packed, "packed for the kernels");
    if (plan.mapped > 0) row("mapped", plan.mapped, "weights used in the file's mapping");
    const std::string positions = strf("%lld x %lld positions", static_cast<long long>(plan.n_slots),
                                       static_cast<long long>(plan.n_ctx));
    row("KV cache", plan.cache,
        positions + (plan.npu.all_kv ? ", all on the NPU" : ", in pages of " + format_bytes(plan.page)));
    if (plan.states > 0) row("state", plan.states, "of recurrent layers, with checkpoints");
    row("activations", plan.activations, "of one pass");
    row("scratch", plan.scratch, "of all threads");
    row("sampling", plan.sampling, "candidates of all completions");
    if (plan.npu.total() > 0) {
        row("NPU program", plan.npu.program,
            "instructions and a second copy of the metadata; already resident");
        row("NPU file", plan.npu.mapped, "weights and tables in the file's mapping");
        row("NPU arena", plan.npu.arena, "activations of the emulated device");
        row("NPU cache", plan.npu.cache, "KV cache of the emulated device");
        row("VTCM", plan.npu.vtcm, "of the emulated device");
        row("NPU rows", plan.npu.rows, "activations between CPU and NPU, scratch");
    }
    row("total", plan.total(), "at full use");
    return out;
}

Result<void> check_fits(const MemoryPlan& plan, uint64_t available) {
    if (available == 0 || plan.growth_bytes() <= available) return {};
    return fail(ErrorCode::OutOfMemory,
                "memory: expected room for %s more, found %s (reduce --ctx, use a smaller --kv type "
                "or a smaller model)\n%s",
                format_bytes(plan.growth_bytes()).c_str(), format_bytes(available).c_str(),
                to_text(plan).c_str());
}

}  // namespace tessera::engine
