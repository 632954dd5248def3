#pragma once
// The HTTP server: a model, an engine, and the routes over them. docs/guide/server.md describes the
// interface.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "include/tessera.hpp"
#include "server/http.h"

namespace tessera::server {

struct Config {
    std::string model_path;
    std::string model_name;  ///< for clients; empty: the file's name without folder and extension
    tsr_model_options model{};
    tsr_engine_options engine{};
    std::string chat_template;  ///< Jinja; empty: the model's
    std::string host = "127.0.0.1";
    int port = 8080;
    std::vector<std::string> keys;          ///< each of them grants access; empty: no key is needed
    bool page = true;                       ///< the chat page at /
    std::vector<std::string> cors_origins;  ///< whose pages may send requests from a browser
    std::string tls_certificate, tls_key;   ///< files in PEM; empty: plain HTTP
    HttpLimits limits;
    double grace_s = 30;  ///< seconds that running requests have after stop()
    /// Receives one line of JSON per request, without its text; called from any thread. May be empty.
    std::function<void(const std::string& line)> log;
};

/// The constructor throws tessera_api::Error or std::runtime_error if the server cannot start.
class Server {
  public:
    explicit Server(Config config);
    ~Server();

    /// "http://127.0.0.1:8080", "https://..." or "unix:" and the path of the socket.
    std::string address() const;
    /// Serves until stop().
    void run();
    /// From any thread, and from signal handlers: accepts no more requests; running ones have the grace
    /// period to end, which a second call cuts short.
    void stop();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::server
