// Runs in the children of `npu report` (child.h), one measurement each. The system reports peaks only as a
// whole, so a thread samples the parts of the resident set every millisecond.
#include "examples/tessera/npu_measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "examples/tessera/console.h"
#include "src/engine/npu_offload.h"
#include "src/forward/record.h"

namespace tessera {

namespace {

HeapUse heap_use() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 info = mallinfo2();
    return {info.uordblks + info.hblkhd, info.fordblks, info.ordblks};
#else
    return {};
#endif
}

/// CPU time of all threads of this process, including those that ended.
double cpu_seconds() {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Watches the resident set from its construction on.
class MemoryWatch {
  public:
    MemoryWatch() {
        restarted_ = restart_peak_rss();
        look();
        thread_ = std::thread([this] {
            while (!stop_.load(std::memory_order_relaxed)) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                look();
            }
        });
    }
    ~MemoryWatch() { end(); }
    MemoryWatch(const MemoryWatch&) = delete;
    MemoryWatch& operator=(const MemoryWatch&) = delete;

    /// The maximum of each kind so far.
    ResidentSet end() {
        stop_.store(true, std::memory_order_relaxed);
        if (thread_.joinable()) thread_.join();
        look();
        return most_;
    }
    uint64_t peak_bytes() const { return restarted_ ? peak_rss_bytes() : 0; }

  private:
    void look() {
        const ResidentSet now = resident_set();
        most_.anonymous_bytes = std::max(most_.anonymous_bytes, now.anonymous_bytes);
        most_.file_bytes = std::max(most_.file_bytes, now.file_bytes);
    }

    ResidentSet most_;
    bool restarted_ = false;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

/// The largest planned arena of the graphs that run for these tokens. The head of a prompt is computed for
/// its last token only.
int64_t planned_arena(const engine::EmulatedNpuSession& passes, const record::Program& program,
                      int64_t n_prompt, int64_t n_decode) {
    int64_t most = 0;
    const std::vector<npu::DeviceSegment>& segments = passes.compiled().segments;
    for (size_t s = 0; s < segments.size(); ++s) {
        const bool is_head = npu::is_head(program, segments[s].first_op);
        const auto add = [&](int64_t n_valid, int64_t n_past) {
            const npu::DeviceGraph* graph = passes.device().graph_of(s, {n_valid, n_past});
            if (graph) most = std::max(most, graph->arena_bytes);
        };
        const int64_t max_rows = passes.device().max_rows(s);
        if (is_head) add(1, 0);
        for (int64_t at = 0; at < n_prompt && !is_head; at += max_rows)
            add(std::min(max_rows, n_prompt - at), at);
        for (int64_t at = n_prompt; at < n_prompt + n_decode; ++at) add(1, at);
    }
    return most;
}

/// The ids from 1 on, repeated; the choice of tokens does not change the cost.
std::vector<int32_t> some_tokens(int64_t n, int64_t n_vocab) {
    std::vector<int32_t> out;
    for (int64_t i = 1; i <= n; ++i) out.push_back(static_cast<int32_t>(i % n_vocab));
    return out;
}

Result<void> compute(engine::Session& session, const NpuTrial& trial, NpuStart& out) {
    out.n_decode = std::min(trial.n_decode, session.n_ctx());
    out.n_prompt = std::min(trial.n_prompt, session.n_ctx() - out.n_decode);
    const int64_t n_vocab = session.model().hparams().n_vocab;
    const std::vector<int32_t> tokens = some_tokens(out.n_prompt + out.n_decode, n_vocab);
    const auto n_prompt = static_cast<size_t>(out.n_prompt);
    double start = now_seconds();
    if (n_prompt > 0) TSR_TRY_VOID(session.eval(std::span(tokens).first(n_prompt)));
    out.prompt_seconds = now_seconds() - start;
    out.heap_before = heap_use();
    start = now_seconds();
    for (size_t i = n_prompt; i < tokens.size(); ++i)
        TSR_TRY_VOID(session.eval(std::span(tokens).subspan(i, 1)));
    out.decode_seconds = now_seconds() - start;
    out.heap_after = heap_use();
    return {};
}

/// The context length of the trial, or of its compiled file.
Result<int64_t> context_of(const NpuTrial& trial) {
    if (trial.n_ctx > 0 || trial.npu.file.empty()) return trial.n_ctx;
    TSR_TRY(const npu::ContextFile file, npu::ContextFile::open(trial.npu.file, {.check_constants = false}));
    return file.model().n_ctx;
}

}  // namespace

Result<NpuStart> measure_npu_start(const NpuTrial& trial) {
    TSR_TRY(const int64_t n_ctx, context_of(trial));
    engine::SessionOptions options{.n_ctx = n_ctx, .n_batch = 128, .max_out = 1};
    NpuStart out;
    double start = now_seconds();
    TSR_TRY(gguf::File file, trial.model.file.open());
    // Loaded again for the measurement; this one determines the weights that the CPU needs.
    TSR_TRY(auto first, load_npu(trial.npu, trial.model.file, true));
    TSR_TRY(const LoadedModel loaded, load_model(std::move(file), trial.model, {options}, first.get()));
    first.reset();
    loaded.pool->set_abort_flag(&console::InterruptGuard::flag());
    out.model_seconds = now_seconds() - start;
    out.before = resident_set();

    MemoryWatch watch;
    start = now_seconds();
    const double cpu_start = cpu_seconds();
    TSR_TRY(options.npu, load_npu(trial.npu, trial.model.file));
    TSR_TRY(const auto session, engine::Session::create(loaded.model, *loaded.pool, options));
    out.npu_seconds = now_seconds() - start;
    out.npu_cpu_seconds = cpu_seconds() - cpu_start;
    out.most = watch.end();
    out.peak_bytes = watch.peak_bytes();
    out.after = resident_set();

    const auto& passes = static_cast<const engine::EmulatedNpuSession&>(*session->npu());
    const npu::DeviceModel& compiled = passes.compiled();
    out.n_ctx = session->n_ctx();
    out.arena_bytes = compiled.arena_bytes;
    out.cache_bytes = compiled.cache_bytes;
    out.constant_bytes = static_cast<int64_t>(compiled.constants.size());
    out.vtcm_bytes = compiled.vtcm_bytes;
    TSR_TRY_VOID(compute(*session, trial, out));
    out.host_cache_bytes = passes.owns_kv_cache() ? 0 : session->kv_bytes();
    out.arena_planned_bytes =
        planned_arena(passes, record_all_rows(*loaded.model, 1, 1), out.n_prompt, out.n_decode);
    out.arena_touched_bytes = passes.device().arena_peak();
    return out;
}

Result<NpuCompilation> measure_npu_compilation(const NpuTrial& trial, const std::string& out) {
    NpuCompilation figures;
    figures.before = resident_set();
    MemoryWatch watch;
    const double start = now_seconds(), cpu_start = cpu_seconds();
    TSR_TRY(gguf::File file, trial.model.file.open());
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(const engine::NpuOptions options, npu_options(trial.npu));
    TSR_TRY(const auto npu, engine::EmulatedNpuModel::create(std::move(file), *isa->table, options));
    const int64_t n_threads = trial.model.n_threads;
    ThreadPool pool(n_threads > 0 ? static_cast<int>(n_threads) : default_thread_count());
    pool.set_abort_flag(&console::InterruptGuard::flag());
    TSR_TRY(const engine::CachePlan cache, engine::plan_cache(npu->model(), {.n_ctx = trial.n_ctx}));
    TSR_TRY(const auto compiled, npu->compile(cache.n_ctx, pool));
    TSR_TRY_VOID(npu::write_context(out, compiled->model, npu->device()));
    figures.seconds = now_seconds() - start;
    figures.cpu_seconds = cpu_seconds() - cpu_start;
    figures.most = watch.end();
    figures.peak_bytes = watch.peak_bytes();
    figures.file_bytes = std::filesystem::file_size(out);
    return figures;
}

}  // namespace tessera
