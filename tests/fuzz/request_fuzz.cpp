// Any bytes as a request's body, for any route: an answer, or an error of the client's. The client leaves at
// once, so that nothing is computed. Input: a byte for the route; the rest is the body.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "server/error.h"
#include "server/routes.h"
#include "server/service.h"

namespace {

using namespace tessera::server;

class Leaving : public Peer {
  public:
    Woken wait(int, double) override { return Woken::Gone; }
};

Service& service() {
    static const Config config = [] {
        Config out;
        out.model_path = TSR_SOURCE_DIR "/models/tessera-tiny.gguf";
        out.engine.n_ctx = 128;
        out.engine.n_threads = 1;
        return out;
    }();
    static Service out(config);
    return out;
}

bool is_client_error(const std::exception& error) {
    if (const auto* refused = dynamic_cast<const HttpError*>(&error)) return refused->status < 500;
    // The route wrapper turns errors of the library into status 400.
    const auto* failed = dynamic_cast<const tessera_api::Error*>(&error);
    return failed && failed->status() != TSR_INTERNAL;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    static Leaving peer;
    const Route& route = routes()[data[0] % routes().size()];
    Request request;
    request.method = route.method;
    request.path = route.path;
    request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
    request.id = "fuzz";
    request.peer = &peer;
    try {
        Response response = route.handle(service(), request);
        std::string chunk;
        while (response.stream && response.stream(chunk)) chunk.clear();
    } catch (const std::exception& error) {
        if (is_client_error(error)) return 0;
        std::fprintf(stderr, "violated: %s is no bug of ours: %s\n", route.path, error.what());
        std::abort();
    }
    return 0;
}
