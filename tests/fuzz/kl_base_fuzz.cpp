// Any bytes as a base of predictions: refused, or every row is readable.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "src/measure/kl_base.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tessera;
    char path[] = "/dev/shm/kl_base_fuzz_XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
    ::close(fd);
    const auto base = measure::KlBase::open(path);
    ::unlink(path);
    if (!base) return 0;
    const measure::Windows& windows = base->windows();
    for (int64_t w = 0; w < windows.n_windows; ++w)
        for (int64_t j = 0; j < windows.n_judged(); ++j) {
            const auto row = base->row(w, j);
            if (row &&
                std::accumulate(row->steps.begin(), row->steps.end(), 0ull) > 65535ull * row->steps.size())
                std::abort();
        }
    return 0;
}
