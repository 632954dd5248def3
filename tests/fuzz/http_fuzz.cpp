// Any bytes from a client that then closes the connection: each connection ends, answers are HTTP, and
// handlers see only complete requests.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "server/http.h"

namespace {

using namespace tessera::server;

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

HttpLimits limits() {
    HttpLimits out;
    out.head_bytes = 4 << 10;
    out.body_bytes = 4 << 10;
    out.head_s = out.body_s = out.write_s = out.idle_s = 0.2;
    return out;
}

HttpServer& server() {
    static HttpServer out({[](const Request& request, Response& early) {
                               require(!request.path.empty() && request.path[0] == '/',
                                       "paths begin with a /");
                               early.status = 404;
                               return request.path == "/early";
                           },
                           [](Request& request) {
                               require(request.body.size() <= limits().body_bytes, "bodies keep their limit");
                               require(!request.id.empty() && request.id.size() <= 64, "requests have names");
                               Response response;
                               response.body = std::to_string(request.body.size());
                               if (request.path == "/stream")
                                   response.stream = [n = 0](std::string& chunk) mutable {
                                       chunk += "data: x\n\n";
                                       return ++n < 3;
                                   };
                               return response;
                           },
                           {}},
                          limits());
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size > (32 << 10)) return 0;
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    require(::write(ends[1], data, size) == static_cast<ssize_t>(size), "they take as much");
    ::shutdown(ends[1], SHUT_WR);
    server().serve(ends[0]);
    char answer[9] = {};
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const ssize_t n = ::read(ends[1], answer, 8);
    require(n <= 0 || std::string_view(answer).starts_with("HTTP/1."), "answers are HTTP");
    ::close(ends[1]);
    return 0;
}
