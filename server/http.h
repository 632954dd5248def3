#pragma once
// HTTP as the routes see it: a request that has come whole, and a response, which may stream. The library
// behind this, cpp-httplib, is seen by http.cpp alone.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tessera::server {

/// What ends a wait for an answer.
enum class Woken { Ready, Timeout, Gone, Stopping };

/// The client's side of a connection, for as long as its request is handled. Its thread only.
class Peer {
  public:
    virtual ~Peer() = default;
    /// Waits until `fd` can be read, at most so long. Gone: the client hung up; Stopping: the server ends
    /// now.
    virtual Woken wait(int fd, double seconds) = 0;
};

struct NoCase {
    bool operator()(const std::string& a, const std::string& b) const;
};

struct Request {
    std::string method, path;  ///< path decoded, without the query
    std::multimap<std::string, std::string, NoCase> headers;
    std::string body;
    std::string id;  ///< the client's X-Request-Id if it is one, else our own
    Peer* peer = nullptr;
    // For the log.
    int64_t n_prompt = 0, n_generated = 0;
    bool failed = false;  ///< a bug of ours ended it

    /// The first header of the name, or "".
    std::string header(const std::string& name) const;
};

struct Response {
    int status = 200;
    std::string content_type = "application/json";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
    /// Instead of a body: appends the next bytes, and returns whether more may come. Called on the
    /// connection's thread while the client takes them; destroyed when it has all or has gone. Must not
    /// throw.
    std::function<bool(std::string& out)> stream;
};

struct HttpLimits {
    size_t head_bytes = 32 << 10;  ///< request line and headers
    size_t body_bytes = 32 << 20;
    int headers = 100;
    int connections = 256;  ///< up to 400; more are told 503
    double head_s = 10;     ///< for the head to come whole
    double body_s = 60;     ///< for the body
    double write_s = 30;    ///< for the client to take some bytes
    double idle_s = 30;     ///< between requests of a connection
};

struct HttpHandlers {
    /// Before the body is read; an answer here ends it, and closes the connection if a body was to come.
    std::function<bool(const Request&, Response&)> before_body;
    std::function<Response(Request&)> handle;
    /// After each response, and each request that was none: what became of it.
    std::function<void(const Request&, int status, double seconds)> done;
};

/// Listens, and answers each connection on a thread of its own: a slow client holds up nobody but itself.
class HttpServer {
  public:
    HttpServer(HttpHandlers handlers, HttpLimits limits);
    ~HttpServer();

    /// Binds to a host and port (0: any that is free), or to the path of a unix socket if `host` has a '/'.
    /// Throws std::runtime_error with what the system said. Returns the port.
    int bind(const std::string& host, int port);
    /// From here on connections are TLS. Throws std::runtime_error where the files are not what they should
    /// be.
    void use_tls(const std::string& certificate, const std::string& key);
    /// Answers until stop(), then waits for the requests under way, at most `grace_s`; then wakes them with
    /// Woken::Stopping and waits for their end.
    void run(double grace_s);
    /// All requests of one connection that is open already, on this thread; the socket is closed at the end.
    void serve(int fd);
    /// From any thread, and from signal handlers. A second call ends the grace.
    void stop();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::server
