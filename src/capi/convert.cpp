// The C interface: file conversions. A progress callback that returns non-zero sets the pool's abort flag,
// which the work checks between chunks.
#include "src/capi/guard.h"
#include "src/capi/handles.h"
#include "src/engine/conversions.h"

namespace tessera::capi {

namespace {

Result<std::vector<std::string>> texts_of(const char* const* texts, size_t n, const char* name) {
    TSR_TRY(const auto given, need_span(texts, n, name));
    std::vector<std::string> out;
    for (const char* text : given) {
        TSR_TRY_VOID(need(text, name));
        out.emplace_back(text);
    }
    return out;
}

Result<engine::QuantizeJob> job_of(const tsr_quantize_options& given) {
    TSR_TRY_VOID(need(given.type, "type"));
    engine::QuantizeJob out;
    out.type = given.type;
    if (given.imatrix) out.importance = given.imatrix;
    if (given.output_type) out.output_type = given.output_type;
    if (given.embedding_type) out.embedding_type = given.embedding_type;
    TSR_TRY(out.overrides, texts_of(given.overrides, given.n_overrides, "overrides"));
    out.pure = given.pure != 0;
    out.allow_requantize = given.allow_requantize != 0;
    return out;
}

/// Runs work(pool, progress) on a new thread pool.
template <class Work>
Result<void> run_with_progress(int32_t n_threads, tsr_progress_fn progress, void* user, Work work) {
    TSR_TRY(const auto pool, create_pool(n_threads));
    std::atomic<bool> abort{false};
    pool->set_abort_flag(&abort);
    return work(*pool, [&](uint64_t done, uint64_t total) {
        if (progress && progress(user, done, total) != 0) abort.store(true);
    });
}

tsr_status repack(const char* in, const char* out, const tsr_pack_options* options, bool packs,
                  tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(in, "in"));
        TSR_TRY_VOID(need(out, "out"));
        TSR_TRY(const tsr_pack_options given, read_options(options, "options"));
        return run_with_progress(given.n_threads, given.progress, given.user,
                                 [&](ThreadPool& pool, const ByteProgress& progress) {
                                     return engine::repack(in, out, packs, pool, progress);
                                 });
    });
}

}  // namespace

}  // namespace tessera::capi

using namespace tessera;
using namespace tessera::capi;

tsr_status tsr_quantize(const char* in, const char* out, const tsr_quantize_options* options,
                        tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(in, "in"));
        TSR_TRY_VOID(need(out, "out"));
        TSR_TRY_VOID(need(options, "options"));
        TSR_TRY(const tsr_quantize_options given, read_options(options, "options"));
        TSR_TRY(const engine::QuantizeJob job, job_of(given));
        return run_with_progress(given.n_threads, given.progress, given.user,
                                 [&](ThreadPool& pool, const ByteProgress& progress) {
                                     return engine::quantize(in, out, job, pool, progress);
                                 });
    });
}

tsr_status tsr_quantized_size(const char* in, const tsr_quantize_options* options, uint64_t* n_bytes,
                              tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(in, "in"));
        TSR_TRY_VOID(need(options, "options"));
        TSR_TRY_VOID(need(n_bytes, "n_bytes"));
        TSR_TRY(const tsr_quantize_options given, read_options(options, "options"));
        TSR_TRY(const engine::QuantizeJob job, job_of(given));
        TSR_TRY(*n_bytes, engine::quantized_size(in, job));
        return {};
    });
}

tsr_status tsr_convert(const char* folder, const char* out, const tsr_convert_options* options,
                       tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(folder, "folder"));
        TSR_TRY_VOID(need(out, "out"));
        TSR_TRY(const tsr_convert_options given, read_options(options, "options"));
        engine::ConvertJob job;
        if (given.type) job.type = given.type;
        if (given.pre) job.pre = given.pre;
        TSR_TRY(job.overrides, texts_of(given.overrides, given.n_overrides, "overrides"));
        job.pure = given.pure != 0;
        job.allow_requantize = given.allow_requantize != 0;
        job.packed = given.packed != 0;
        return run_with_progress(
            given.n_threads, given.progress, given.user, [&](ThreadPool& pool, const ByteProgress& progress) {
                return engine::convert_folder(folder, out, job, pool, progress, progress);
            });
    });
}

tsr_status tsr_pack(const char* in, const char* out, const tsr_pack_options* options, tsr_error* error) {
    return repack(in, out, options, true, error);
}

tsr_status tsr_unpack(const char* in, const char* out, const tsr_pack_options* options, tsr_error* error) {
    return repack(in, out, options, false, error);
}
