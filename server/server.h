#pragma once
// The HTTP server as a whole: a model, an engine, and the routes over them. docs/guide/server.md has what it
// answers.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "include/tessera.hpp"
#include "server/http.h"

namespace tessera::server {

struct Config {
    std::string model_path;
    std::string model_name;  ///< as clients see it; empty: the file's name without folder and ending
    tsr_model_options model{};
    tsr_engine_options engine{};
    std::string chat_template;  ///< Jinja; empty: the model's
    std::string host = "127.0.0.1";
    int port = 8080;
    std::vector<std::string> keys;          ///< any of them lets in; none: everybody
    bool page = true;                       ///< the chat page at /
    std::vector<std::string> cors_origins;  ///< that browsers may call from
    std::string tls_certificate, tls_key;   ///< files in PEM; empty: plain HTTP
    HttpLimits limits;
    double grace_s = 30;  ///< for requests under way, when it is to stop
    /// One line of JSON for each request, without its text; from any thread. May be empty.
    std::function<void(const std::string& line)> log;
};

/// Throws tessera_api::Error or std::runtime_error where it cannot start.
class Server {
  public:
    explicit Server(Config config);
    ~Server();

    /// "http://127.0.0.1:8080", "https://..." or "unix:" and the path of the socket.
    std::string address() const;
    /// Answers until stop().
    void run();
    /// From any thread, and from signal handlers: no more requests; those under way have the grace to end,
    /// which a second call cuts short.
    void stop();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::server
