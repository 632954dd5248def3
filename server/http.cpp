// The only file that uses cpp-httplib: it parses the heads and bodies that connection.cpp has checked, and
// writes responses, chunked where they stream. Accepting and threads are implemented here: the library's
// accept loop ends at temporary errors, and in its pool slow clients block others. routes.cpp chooses the
// route.
#include "server/http.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>

#include "server/connection.h"
#include "server/error.h"

namespace tessera::server {

bool NoCase::operator()(const std::string& a, const std::string& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](char x, char y) { return ::tolower(x) < ::tolower(y); });
}

std::string Request::header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
}

namespace {

constexpr int kRequestsPerConnection = 10000;

/// The library's view of a connection.
class Stream final : public httplib::Stream {
  public:
    explicit Stream(Connection& connection) : connection_(connection) {}
    bool is_readable() const override { return connection_.readable(); }
    bool is_writable() const override { return connection_.writable(); }
    ssize_t read(char* out, size_t n) override { return connection_.read(out, n); }
    ssize_t write(const char* data, size_t n) override { return connection_.write(data, n); }
    void get_remote_ip_and_port(std::string&, int&) const override {}
    void get_local_ip_and_port(std::string&, int&) const override {}
    socket_t socket() const override { return connection_.fd(); }

  private:
    Connection& connection_;
};

/// The request that the current thread handles.
struct Current {
    Connection* connection = nullptr;
    Request request;
    Clock::time_point start;
    int status = 0;
};
thread_local Current* current = nullptr;

std::string random_id() {
    thread_local std::mt19937_64 random{std::random_device{}()};
    char text[40];
    std::snprintf(text, sizeof text, "req-%016llx", static_cast<unsigned long long>(random()));
    return text;
}

/// A client may name its requests; the name is logged and returned in a header, so it is checked.
std::string request_id(const std::string& given) {
    const bool fine =
        !given.empty() && given.size() <= 64 && std::all_of(given.begin(), given.end(), [](char c) {
            return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
        });
    return fine ? given : random_id();
}

void fill_in(Request& request, const httplib::Request& from) {
    request.method = from.method;
    request.path = from.path;
    // The library decodes %XX in headers, which would change keys.
    request.headers = current->connection->headers();
    request.id = request_id(request.header("X-Request-Id"));
    request.peer = current->connection;
}

void write_out(Response&& response, const httplib::Request& from, httplib::Response& to) {
    current->status = to.status = response.status;
    to.set_header("X-Request-Id", current->request.id);
    for (const auto& [name, value] : response.headers) to.set_header(name.c_str(), value);
    if (current->connection->body_pending()) to.set_header("Connection", "close");
    if (!response.stream) {
        if (!response.body.empty()) to.set_content(response.body, response.content_type.c_str());
        return;
    }
    auto next = std::make_shared<std::function<bool(std::string&)>>(std::move(response.stream));
    const auto provide = [next](size_t, httplib::DataSink& sink) {
        std::string out;
        const bool more = (*next)(out);
        if (!out.empty() && !sink.write(out.data(), out.size())) return false;
        if (!more) sink.done();
        return true;
    };
    if (from.version == "HTTP/1.0")
        to.set_content_provider(response.content_type.c_str(), provide);
    else
        to.set_chunked_content_provider(response.content_type.c_str(), provide);
}

/// A listening socket, or an exception with the system's message.
int listen_on(const std::string& host, int port, int& bound_port) {
    const auto refuse = [&](int error) -> int {
        const std::string where =
            host.find('/') == std::string::npos ? host + ":" + std::to_string(port) : host;
        throw std::runtime_error("cannot listen on " + where + ": " + std::generic_category().message(error));
    };
    if (host.find('/') != std::string::npos) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (host.size() >= sizeof address.sun_path) return refuse(ENAMETOOLONG);
        host.copy(address.sun_path, host.size());
        const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) return refuse(errno);
        const auto* generic = reinterpret_cast<const sockaddr*>(&address);
        // Remove the socket of an earlier process if no process listens on it.
        struct stat status {};
        if (::lstat(host.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
            ::connect(fd, generic, sizeof address) != 0 && errno == ECONNREFUSED)
            ::unlink(host.c_str());
        if (::bind(fd, generic, sizeof address) == 0 && ::listen(fd, 128) == 0) return fd;
        const int error = errno;
        ::close(fd);
        return refuse(error);
    }
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
        throw std::runtime_error("cannot listen on '" + host + "': " + ::gai_strerror(error));
    int error = EADDRNOTAVAIL;
    for (const addrinfo* a = found; a; a = a->ai_next) {
        const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        const int yes = 1;
        if (fd >= 0) (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (fd >= 0 && ::bind(fd, a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd, 128) == 0) {
            ::freeaddrinfo(found);
            sockaddr_storage address{};
            socklen_t size = sizeof address;
            if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0)
                bound_port =
                    ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                                        : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
            return fd;
        }
        error = errno;
        if (fd >= 0) ::close(fd);
    }
    ::freeaddrinfo(found);
    return refuse(error);
}

}  // namespace

struct HttpServer::Impl : httplib::Server {
    Impl(HttpHandlers h, HttpLimits l) : handlers(std::move(h)), limits(l) {
        set_payload_max_length(limits.body_bytes);
        set_pre_routing_handler([this](const httplib::Request& from, httplib::Response& to) {
            Response early;
            fill_in(current->request, from);
            const bool ended = handlers.before_body(current->request, early);
            if (!ended && from.method == "POST") return HandlerResponse::Unhandled;
            write_out(ended ? std::move(early) : handlers.handle(current->request), from, to);
            return HandlerResponse::Handled;
        });
        Post(".*",
             [this](const httplib::Request& from, httplib::Response& to, const httplib::ContentReader& read) {
                 std::string& body = current->request.body;
                 const bool whole = read([&](const char* data, size_t n) {
                     if (body.size() + n > limits.body_bytes) return false;
                     body.append(data, n);
                     return true;
                 });
                 if (whole) {
                     current->connection->set_body_read();
                     write_out(handlers.handle(current->request), from, to);
                     return;
                 }
                 Response refused;
                 const bool large = body.size() + (64 << 10) > limits.body_bytes;
                 refused.status = large ? 413 : 408;
                 refused.body = error_body(refused.status,
                                           large ? "the request's body is larger than " +
                                                       std::to_string(limits.body_bytes) + " bytes"
                                                 : "the request's body did not arrive within the time limit");
                 write_out(std::move(refused), from, to);
             });
        // Requests that the library itself refuses.
        set_error_handler([](const httplib::Request&, httplib::Response& to) {
            if (current->status == 0)
                to.set_content(error_body(to.status, "the request is malformed"), "application/json");
            current->status = to.status;
        });
        set_logger([this](const httplib::Request&, const httplib::Response&) { report(); });
    }
    ~Impl() override {
        if (svr_sock_ != INVALID_SOCKET) ::close(svr_sock_);
        if (!unix_path.empty()) ::unlink(unix_path.c_str());
    }

    void report() {
        const std::chrono::duration<double> time = Clock::now() - current->start;
        if (handlers.done) handlers.done(current->request, current->status, time.count());
    }

    /// All requests of a connection, on a thread of its own.
    void serve(int fd) {
        Connection connection(fd, limits, draining, stopping, tls.get());
        Stream stream(connection);
        for (int i = 0; i < kRequestsPerConnection; i++) {
            const auto head = connection.read_head();
            if (head == Connection::Head::Closed) return;
            Current here;
            here.connection = &connection;
            here.start = Clock::now();
            current = &here;
            bool closed = false;
            const bool last = draining.raised();
            bool fine = false;
            if (head == Connection::Head::Ok) {
                fine = process_request(stream, last, closed, nullptr);
            } else {
                here.request.id = random_id();
                here.status = connection.refused();
                report();
            }
            current = nullptr;
            if (!fine || closed || last || connection.body_pending() || !connection.writable()) return;
        }
    }

    void take(int fd) { svr_sock_ = fd; }

    void accept_all() {
        while (!draining.raised()) {
            pollfd p[2] = {{svr_sock_, POLLIN, 0}, {draining.fd(), POLLIN, 0}};
            if (::poll(p, 2, -1) > 0 && p[0].revents) accept_one();
        }
        // Accept no more clients. The descriptor stays valid, since the library aborts streams once it is
        // closed.
        ::shutdown(svr_sock_, SHUT_RDWR);
    }

    void accept_one() {
        const int fd = ::accept4(svr_sock_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) {
            // Out of descriptors, or a client that disconnected: both are temporary.
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            return;
        }
        const int yes = 1;
        if (unix_path.empty()) (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        {
            const std::lock_guard lock(mutex);
            n_connections++;
        }
        const auto leave = [this] {
            const std::lock_guard lock(mutex);
            if (--n_connections == 0) none_left.notify_all();
        };
        try {
            if (n_connections > limits.connections) throw std::runtime_error("too many");
            std::thread([this, fd, leave] {
                // Writing to a closed connection must be an error, not a signal; OpenSSL has no flag for
                // that.
                sigset_t pipe;
                ::sigemptyset(&pipe);
                ::sigaddset(&pipe, SIGPIPE);
                ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
                try {
                    serve(fd);
                } catch (const std::exception&) {
                    // At worst out of memory: this connection ends, the others continue.
                }
                leave();
            }).detach();
        } catch (const std::exception&) {
            static const std::string body = error_body(503, "too many connections; try again later");
            const std::string answer =
                "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: "
                "application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body;
            // Over TLS no answer is possible before the handshake.
            if (!tls) (void)::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            ::close(fd);
            leave();
        }
    }

    HttpHandlers handlers;
    const HttpLimits limits;
    Signal draining, stopping;
    std::unique_ptr<TlsContext> tls;
    std::atomic<int> n_stops{0};
    std::string unix_path;
    std::mutex mutex;
    std::condition_variable none_left;
    std::atomic<int> n_connections{0};
};

HttpServer::HttpServer(HttpHandlers handlers, HttpLimits limits)
    : impl_(std::make_unique<Impl>(std::move(handlers), limits)) {}

HttpServer::~HttpServer() = default;

int HttpServer::bind(const std::string& host, int port) {
    int bound = 0;
    impl_->take(listen_on(host, port, bound));
    if (host.find('/') != std::string::npos) impl_->unix_path = host;
    return bound;
}

void HttpServer::use_tls(const std::string& certificate, const std::string& key) {
    impl_->tls = std::make_unique<TlsContext>(certificate, key);
}

void HttpServer::run(double grace_s) {
    impl_->accept_all();
    std::unique_lock lock(impl_->mutex);
    const auto gone = [this] { return impl_->n_connections == 0 || impl_->stopping.raised(); };
    const auto end = Clock::now() + std::chrono::duration<double>(grace_s);
    // A second stop() comes from a signal handler, which cannot notify.
    while (!gone() && Clock::now() < end) impl_->none_left.wait_for(lock, std::chrono::milliseconds(50));
    impl_->stopping.raise();
    impl_->none_left.wait(lock, [this] { return impl_->n_connections == 0; });
}

void HttpServer::serve(int fd) { impl_->serve(fd); }

void HttpServer::stop() {
    if (impl_->n_stops++ > 0) impl_->stopping.raise();
    impl_->draining.raise();
}

}  // namespace tessera::server
