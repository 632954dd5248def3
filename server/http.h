#pragma once
// HTTP as the routes see it: a complete request, and a response, which may stream. Only http.cpp includes the
// library behind it, cpp-httplib.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tessera::server {

/// The reason why a wait for an answer ended.
enum class Woken { Ready, Timeout, Gone, Stopping };

/// The client's side of a connection while its request is handled. The connection's thread only.
class Peer {
  public:
    virtual ~Peer() = default;
    /// Waits until `fd` can be read, at most `seconds`. Gone: the client disconnected; Stopping: the server
    /// ends at once.
    virtual Woken wait(int fd, double seconds) = 0;
};

struct NoCase {
    bool operator()(const std::string& a, const std::string& b) const;
};

struct Request {
    std::string method, path;  ///< path decoded, without the query
    std::multimap<std::string, std::string, NoCase> headers;
    std::string body;
    std::string id;  ///< the client's X-Request-Id if it is valid, else a generated one
    Peer* peer = nullptr;
    // For the log.
    int64_t n_prompt = 0, n_generated = 0;
    bool failed = false;  ///< ended by an internal error

    /// The first header of the name, or "".
    std::string header(const std::string& name) const;
};

struct Response {
    int status = 200;
    std::string content_type = "application/json";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
    /// Instead of a body: appends the next bytes, and returns whether more follow. Called on the connection's
    /// thread while the client takes them; destroyed at the end or when the client disconnects. Must not
    /// throw.
    std::function<bool(std::string& out)> stream;
};

struct HttpLimits {
    size_t head_bytes = 32 << 10;  ///< request line and headers
    size_t body_bytes = 32 << 20;
    int headers = 100;
    int connections = 256;  ///< up to 400; further ones get 503
    double head_s = 10;     ///< until the whole head must have arrived
    double body_s = 60;     ///< until the whole body must have arrived
    double write_s = 30;    ///< until the client must have taken some bytes
    double idle_s = 30;     ///< between requests of a connection
};

struct HttpHandlers {
    /// Called before the body is read; an answer ends the request, and closes the connection if a body
    /// follows.
    std::function<bool(const Request&, Response&)> before_body;
    std::function<Response(Request&)> handle;
    /// Called after each response, and after each malformed request.
    std::function<void(const Request&, int status, double seconds)> done;
};

/// Listens, and handles each connection on a thread of its own, so that a slow client blocks no other.
class HttpServer {
  public:
    HttpServer(HttpHandlers handlers, HttpLimits limits);
    ~HttpServer();

    /// Binds to a host and port (0: any that is free), or to the path of a unix socket if `host` has a '/'.
    /// Returns the port. Throws std::runtime_error with the system's message.
    int bind(const std::string& host, int port);
    /// Further connections use TLS. Throws std::runtime_error if a file has no certificate or key.
    void use_tls(const std::string& certificate, const std::string& key);
    /// Serves until stop(), then waits at most `grace_s` for the running requests, wakes the rest with
    /// Woken::Stopping and waits for their end.
    void run(double grace_s);
    /// Serves all requests of one open connection on the calling thread, and closes the socket.
    void serve(int fd);
    /// From any thread, and from signal handlers. A second call ends the grace period.
    void stop();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::server
