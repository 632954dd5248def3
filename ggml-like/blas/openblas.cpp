// The only file that includes cblas.h, for its declarations. The library is loaded with dlopen, and never
// closed: it has threads. It computes in the caller's thread, because the thread pool has divided the work
// already and two pools would compete for the same cores. Next: products.cpp, which calls it.
#include "ggml-like/blas/openblas.h"

#include <cblas.h>
#include <dlfcn.h>

#include "common/strings.h"

namespace tessera::blas {

namespace {

/// The name that programs linked with OpenBLAS look for, whichever of its variants is installed.
constexpr const char* kLibrary = "libopenblas.so.0";

decltype(&cblas_sgemm) sgemm = nullptr;

void multiply(const Product& p) {
    const auto size = [](int64_t n) { return static_cast<blasint>(n); };
    sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, size(p.n_tok), size(p.n_rows), size(p.n_k), 1.0f, p.x,
          size(p.x_stride), p.w, size(p.w_stride), p.accumulate ? 1.0f : 0.0f, p.y, size(p.y_stride));
}

template <class Function>
Result<Function> find(void* library, const char* name) {
    if (void* found = dlsym(library, name)) return reinterpret_cast<Function>(found);
    return fail(ErrorCode::Unsupported, "OpenBLAS: expected the function %s in %s, found none", name,
                kLibrary);
}

Result<OpenBlas> load() {
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(ErrorCode::Unsupported,
                    "OpenBLAS: expected the library %s (Debian: libopenblas0), found: %s", kLibrary,
                    printable(dlerror(), 400).c_str());
    TSR_TRY(sgemm, find<decltype(&cblas_sgemm)>(library, "cblas_sgemm"));
    TSR_TRY(const auto set_threads,
            find<decltype(&openblas_set_num_threads)>(library, "openblas_set_num_threads"));
    TSR_TRY(const auto config, find<decltype(&openblas_get_config)>(library, "openblas_get_config"));
    TSR_TRY(const auto core, find<decltype(&openblas_get_corename)>(library, "openblas_get_corename"));
    set_threads(1);
    // "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64"
    const std::string text = config();
    const std::vector<std::string_view> words = split(text, ' ');
    return OpenBlas{.version = std::string(words.size() > 1 ? words[1] : "unknown"),
                    .core = core(),
                    .multiply = multiply};
}

}  // namespace

Result<const OpenBlas*> open_blas() {
    static const Result<OpenBlas> library = load();
    if (!library) return tl::unexpected(library.error());
    return &*library;
}

}  // namespace tessera::blas
