// Owns a client's socket. The head of each request is read whole, within limits of size and time. Only plain
// HTTP/1.x is passed to the library, without the headers for ranges and compression, which answers that
// stream do not support. http.cpp handles the request from there.
#include "server/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "server/error.h"

namespace tessera::server {

namespace {

constexpr size_t kMaxLine = 8000;  // of a head; the library's own limit is about the same

/// Milliseconds for poll(), rounded up.
int until(Clock::time_point deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() + 1;
    return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
}

Clock::time_point in(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

bool is_token(std::string_view text) {
    if (text.empty()) return false;
    return std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return c > 0x20 && c < 0x7F && !std::strchr("()<>@,;:\\\"/[]?={}", c);
    });
}

bool equal_no_case(std::string_view a, std::string_view b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                              [](char x, char y) { return ::tolower(x) == ::tolower(y); });
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

}  // namespace

Signal::Signal() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "cannot make an event descriptor");
}

Signal::~Signal() { ::close(fd_); }

void Signal::raise() {
    const uint64_t one = 1;
    const int kept = errno;  // a signal handler must restore it
    (void)!::write(fd_, &one, sizeof one);
    errno = kept;
}

void Signal::clear() {
    uint64_t count = 0;
    (void)!::read(fd_, &count, sizeof count);
}

bool Signal::raised() const {
    pollfd p{fd_, POLLIN, 0};
    return ::poll(&p, 1, 0) > 0;
}

Connection::Connection(int fd, const HttpLimits& limits, const Signal& draining, const Signal& stopping,
                       const TlsContext* tls)
    : fd_(fd), limits_(limits), draining_(draining), stopping_(stopping) {
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
    try {
        if (tls) tls_ = std::make_unique<TlsStream>(*tls, fd_);
    } catch (...) {
        ::close(fd_);  // the destructor does not run after an exception here
        throw;
    }
}

Connection::~Connection() {
    tls_.reset();
    // Closing with unread bytes resets the connection, and the client may lose the answer.
    ::shutdown(fd_, SHUT_WR);
    const auto deadline = in(refused_ || body_pending() ? 1.0 : 0.0);
    char buffer[16 << 10];
    for (;;) {
        const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
        if (n > 0 && Clock::now() < deadline) continue;
        pollfd p{fd_, POLLIN, 0};
        if (n >= 0 || errno != EAGAIN || ::poll(&p, 1, until(deadline)) <= 0 || Clock::now() >= deadline)
            break;
    }
    ::close(fd_);
}

Io Connection::receive(char* out, size_t n, size_t& n_read) {
    if (tls_) return tls_->read(out, n, n_read);
    ssize_t got;
    do got = ::recv(fd_, out, n, 0);
    while (got < 0 && errno == EINTR);
    n_read = got > 0 ? static_cast<size_t>(got) : 0;
    return got > 0 ? Io::Done : got < 0 && errno == EAGAIN ? Io::WantRead : Io::Closed;
}

Io Connection::send(const char* data, size_t n, size_t& n_sent) {
    if (tls_) return tls_->write(data, n, n_sent);
    ssize_t sent;
    do sent = ::send(fd_, data, n, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    n_sent = sent > 0 ? static_cast<size_t>(sent) : 0;
    return sent > 0 ? Io::Done : sent < 0 && errno == EAGAIN ? Io::WantWrite : Io::Closed;
}

bool Connection::fill(const Signal& signal) {
    for (;;) {
        char buffer[16 << 10];
        size_t got = 0;
        const Io io = receive(buffer, sizeof buffer, got);
        if (io == Io::Closed) return false;
        if (io == Io::Done) {
            in_.append(buffer, got);
            return true;
        }
        const short wanted = io == Io::WantWrite ? POLLOUT : POLLIN;
        pollfd p[2] = {{fd_, wanted, 0}, {signal.fd(), POLLIN, 0}};
        const int n = ::poll(p, 2, until(deadline_));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || !p[0].revents) return false;
    }
}

Connection::Head Connection::read_head() {
    in_.erase(0, taken_);
    taken_ = 0;
    method_.clear();
    headers_.clear();
    length_.clear();
    has_length_ = chunked_ = old_version_ = has_body_ = body_read_ = false;
    deadline_ = in(limits_.idle_s);
    // Empty lines in front of a request are allowed.
    const auto drop_empty_lines = [this] {
        while (in_.starts_with("\r\n")) in_.erase(0, 2);
    };
    drop_empty_lines();
    while (in_.empty() || in_ == "\r") {
        if (!fill(draining_)) return Head::Closed;
        drop_empty_lines();
    }
    deadline_ = in(limits_.head_s);
    size_t searched = 0, end;
    while ((end = in_.find("\r\n\r\n", searched)) == std::string::npos) {
        searched = in_.size() < 3 ? 0 : in_.size() - 3;
        if (in_.size() > limits_.head_bytes) {
            refuse(431, "the request's head is larger than " + std::to_string(limits_.head_bytes) + " bytes");
            return Head::Bad;
        }
        if (fill(stopping_)) continue;
        if (Clock::now() < deadline_) return Head::Closed;
        refuse(408, "the request's head did not arrive within the time limit");
        return Head::Bad;
    }
    head_left_ = end + 4;
    if (head_left_ > limits_.head_bytes) {
        refuse(431, "the request's head is larger than " + std::to_string(limits_.head_bytes) + " bytes");
        return Head::Bad;
    }
    if (!check_head()) return Head::Bad;
    deadline_ = in(limits_.body_s);
    // Chunks add sizes and line ends, which at most double the text of a reasonable body.
    body_budget_ = 2 * limits_.body_bytes + (64 << 10);
    return Head::Ok;
}

bool Connection::check_head() {
    const std::string head = in_.substr(0, head_left_);
    std::string kept;
    int count = 0;
    for (size_t at = 0; at + 2 < head.size();) {
        const size_t end = head.find("\r\n", at);
        const std::string line = head.substr(at, end - at);
        if (line.size() > kMaxLine) {
            refuse(at == 0 ? 414 : 431, at == 0 ? "the request line is too long" : "a header is too long");
            return false;
        }
        if (at == 0) {
            if (!check_request_line(line)) return false;
            kept = line + "\r\n";
        } else if (++count > limits_.headers) {
            refuse(431, "the request has more than " + std::to_string(limits_.headers) + " headers");
            return false;
        } else if (!check_header(line, kept)) {
            return false;
        }
        at = end + 2;
    }
    if (!check_framing()) return false;
    kept += "\r\n";
    in_.replace(0, head_left_, kept);
    head_left_ = kept.size();
    return true;
}

bool Connection::check_request_line(const std::string& line) {
    const size_t first = line.find(' '), last = line.rfind(' ');
    const bool parts = first != std::string::npos && first != last && line.find(' ', first + 1) == last;
    const std::string_view view = line;
    if (!parts || !is_token(view.substr(0, first)) || line[first + 1] != '/' ||
        !std::all_of(line.begin(), line.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7F; })) {
        refuse(400, "request line: expected METHOD /PATH HTTP/1.1");
        return false;
    }
    const std::string_view version = view.substr(last + 1);
    if (version != "HTTP/1.1" && version != "HTTP/1.0") {
        refuse(505, "expected HTTP version 1.0 or 1.1");
        return false;
    }
    old_version_ = version == "HTTP/1.0";
    method_ = view.substr(0, first);
    for (const char* known : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
        if (method_ == known) return true;
    refuse(501, "unknown request method");
    return false;
}

bool Connection::check_header(const std::string& line, std::string& kept) {
    const size_t colon = line.find(':');
    const std::string_view view = line;
    const bool clean = std::all_of(line.begin(), line.end(),
                                   [](unsigned char c) { return (c >= 0x20 && c != 0x7F) || c == '\t'; });
    if (colon == std::string::npos || !is_token(view.substr(0, colon)) || !clean) {
        refuse(400, "headers: expected NAME: VALUE");
        return false;
    }
    const std::string_view name = view.substr(0, colon), value = trimmed(view.substr(colon + 1));
    if (equal_no_case(name, "Content-Length")) {
        if (has_length_ || value.empty() || value.size() > 15 ||
            !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
            refuse(400, "Content-Length: expected one number");
            return false;
        }
        has_length_ = true;
        length_ = value;
    } else if (equal_no_case(name, "Transfer-Encoding")) {
        if (chunked_ || old_version_ || !equal_no_case(value, "chunked")) {
            refuse(501, "Transfer-Encoding: expected chunked");
            return false;
        }
        chunked_ = true;
    } else if (equal_no_case(name, "Content-Encoding") && !equal_no_case(value, "identity")) {
        refuse(415, "Content-Encoding: expected none");
        return false;
    }
    for (const char* dropped : {"Range", "If-Range", "Accept-Encoding", "Content-Encoding"})
        if (equal_no_case(name, dropped)) return true;
    headers_.emplace(name, value);
    kept += line + "\r\n";
    return true;
}

bool Connection::check_framing() {
    if (chunked_ && has_length_) {
        refuse(400, "the request has both Content-Length and Transfer-Encoding");
        return false;
    }
    has_body_ = chunked_ || (has_length_ && std::stoull(length_) > 0);
    const bool takes_body = method_ == "POST" || method_ == "PUT" || method_ == "PATCH";
    if (takes_body && !chunked_ && !has_length_) {
        refuse(411, "a request with a body needs Content-Length or Transfer-Encoding: chunked");
        return false;
    }
    if (has_length_ && std::stoull(length_) > limits_.body_bytes) {
        refuse(413, "the request's body is larger than " + std::to_string(limits_.body_bytes) + " bytes");
        return false;
    }
    return true;
}

void Connection::refuse(int status, const std::string& message) {
    refused_ = status;
    const std::string body = error_body(status, message);
    const std::string answer =
        "HTTP/1.1 " + std::to_string(status) +
        " Refused\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    (void)write(answer.data(), answer.size());
}

bool Connection::readable() const {
    if (taken_ < in_.size() || (tls_ && tls_->pending())) return true;
    pollfd p{fd_, POLLIN, 0};
    return ::poll(&p, 1, 0) > 0;
}

ssize_t Connection::read(char* out, size_t n) {
    if (taken_ == in_.size()) {
        in_.clear();
        taken_ = 0;
        if (!fill(stopping_)) return -1;
    }
    n = std::min(n, in_.size() - taken_);
    const size_t of_head = std::min(n, head_left_);
    if (n - of_head > body_budget_) return -1;
    std::memcpy(out, in_.data() + taken_, n);
    taken_ += n;
    head_left_ -= of_head;
    body_budget_ -= n - of_head;
    return static_cast<ssize_t>(n);
}

ssize_t Connection::write(const char* data, size_t n) {
    size_t done = 0;
    auto deadline = in(limits_.write_s);
    while (done < n && !broken_) {
        size_t sent = 0;
        const Io io = send(data + done, n - done, sent);
        if (io == Io::Done) {
            done += sent;
            deadline = in(limits_.write_s);
            continue;
        }
        const short wanted = io == Io::WantRead ? POLLIN : POLLOUT;
        pollfd p[2] = {{fd_, wanted, 0}, {stopping_.fd(), POLLIN, 0}};
        // While the server stops, only the bytes that the socket takes at once are written.
        if (io == Io::Closed || ::poll(p, 2, until(deadline)) <= 0 || !(p[0].revents & wanted))
            broken_ = true;
    }
    return broken_ ? -1 : static_cast<ssize_t>(n);
}

Woken Connection::wait(int fd, double seconds) {
    const auto deadline = in(seconds);
    for (;;) {
        pollfd p[3] = {{fd, POLLIN, 0}, {fd_, POLLRDHUP, 0}, {stopping_.fd(), POLLIN, 0}};
        const int n = ::poll(p, 3, until(deadline));
        if (n < 0 && errno == EINTR) continue;
        if (broken_ || p[1].revents) return Woken::Gone;
        if (p[2].revents) return Woken::Stopping;
        return p[0].revents ? Woken::Ready : Woken::Timeout;
    }
}

}  // namespace tessera::server
