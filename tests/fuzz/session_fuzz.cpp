// Patches of a saved session, with the checksum that its bytes should have: refused, or the session continues
// from it. An input is a list of patches: the place, two bytes, and the value, one byte; a place behind the
// end cuts the file there instead.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/hash.h"
#include "src/engine/load.h"
#include "src/engine/session.h"

namespace {

using namespace tessera;

constexpr size_t kHeaderBytes = 40, kTokens = 3, kTokenBytes = 4 * kTokens;

struct Saved {
    ThreadPool pool{1};
    std::unique_ptr<engine::Session> session;
    std::string path = "/dev/shm/session_fuzz_" + std::to_string(::getpid());
    std::string file;

    Saved() {
        auto loaded = engine::load(TSR_SOURCE_DIR "/models/tessera-tiny.gguf", pool, {});
        if (!loaded) std::abort();
        auto created = engine::Session::create(loaded->model, pool, {.n_ctx = 16, .n_batch = 4});
        if (!created) std::abort();
        session = std::move(*created);
        const int32_t tokens[kTokens] = {1, 5, 300};
        if (!session->eval(tokens) || !session->save(path)) std::abort();
        std::ifstream in(path, std::ios::binary);
        file.assign(std::istreambuf_iterator<char>(in), {});
    }
};

std::string with_checksum(std::string file) {
    const size_t n_pages_end = file.size() - sizeof(uint64_t);
    Hash64 hash;
    const auto bytes = std::as_bytes(std::span(file));
    hash.add(bytes.first(kHeaderBytes));
    hash.add(bytes.subspan(kHeaderBytes, kTokenBytes));
    hash.add(bytes.subspan(kHeaderBytes + kTokenBytes, n_pages_end - kHeaderBytes - kTokenBytes));
    const uint64_t checksum = hash.value();
    std::memcpy(file.data() + n_pages_end, &checksum, sizeof checksum);
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static Saved saved;
    std::string file = saved.file;
    for (size_t i = 0; i + 3 <= size; i += 3) {
        const size_t at = static_cast<size_t>(data[i]) << 8 | data[i + 1];
        if (at < file.size())
            file[at] = static_cast<char>(data[i + 2]);
        else
            file.resize(at % (file.size() + 1));
    }
    if (file.size() > kHeaderBytes + kTokenBytes + sizeof(uint64_t)) file = with_checksum(std::move(file));
    std::ofstream(saved.path, std::ios::binary) << file;
    engine::Session& session = *saved.session;
    const auto restored = session.restore(saved.path);
    ::unlink(saved.path.c_str());
    if (!restored) {
        if (session.n_tok() != 0) std::abort();
        return 0;
    }
    const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());
    const int32_t next[] = {7};
    if (!session.sync(text) || !session.eval(next)) std::abort();
    return 0;
}
