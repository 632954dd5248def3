#pragma once
// One client's socket: reads have a deadline and a size limit, and a request's head is checked before any
// parser sees it.
#include <chrono>
#include <string>

#include "server/http.h"
#include "server/tls.h"

namespace tessera::server {

using Clock = std::chrono::steady_clock;

/// A flag with a descriptor that can be polled. Any thread; raise() also in signal handlers.
class Signal {
  public:
    Signal();
    ~Signal();
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;
    void raise();
    /// Resets the flag. A concurrent raise() may be lost, so check its cause after this call.
    void clear();
    bool raised() const;
    int fd() const { return fd_; }

  private:
    int fd_;
};

/// One thread.
class Connection : public Peer {
  public:
    /// Takes ownership of the socket. The other arguments outlive this object: `draining` ends the wait for
    /// the next request, `stopping` every wait. Without `tls` the connection is plain HTTP.
    Connection(int fd, const HttpLimits& limits, const Signal& draining, const Signal& stopping,
               const TlsContext* tls = nullptr);
    ~Connection() override;

    enum class Head { Ok, Closed, Bad };
    /// Waits for the next request's head. Closed: the client sends no more. Bad: refuse() has been called
    /// with the reason.
    Head read_head();
    /// Writes an error as the whole answer; nothing may be written after it.
    void refuse(int status, const std::string& message);
    /// Status of the last refuse(), or 0.
    int refused() const { return refused_; }

    /// The head's bytes, then those of the body. -1 after a timeout or at the size limit.
    ssize_t read(char* out, size_t n);
    bool readable() const;
    /// Writes all bytes; -1 when the client does not take them in time.
    ssize_t write(const char* data, size_t n);
    bool writable() const { return !broken_; }

    Woken wait(int fd, double seconds) override;

    /// Whether the request has a body that has not been read.
    bool body_pending() const { return has_body_ && !body_read_; }
    void set_body_read() { body_read_ = true; }
    /// As received.
    const std::multimap<std::string, std::string, NoCase>& headers() const { return headers_; }
    int fd() const { return fd_; }

  private:
    bool check_head();
    bool check_request_line(const std::string& line);
    bool check_header(const std::string& line, std::string& kept);
    bool check_framing();
    /// Reads some bytes without waiting.
    Io receive(char* out, size_t n, size_t& n_read);
    Io send(const char* data, size_t n, size_t& n_sent);
    /// Waits until bytes have arrived; false at the deadline, the end of the stream, or the signal.
    bool fill(const Signal& signal);

    int fd_;
    std::unique_ptr<TlsStream> tls_;
    const HttpLimits& limits_;
    const Signal &draining_, &stopping_;
    std::string in_;  ///< received, not yet read
    size_t taken_ = 0;
    size_t head_left_ = 0;  ///< bytes of the head that have not been read
    size_t body_budget_ = 0;
    Clock::time_point deadline_;
    std::multimap<std::string, std::string, NoCase> headers_;
    std::string method_;
    std::string length_;  ///< of the body, as received
    bool has_length_ = false, chunked_ = false, old_version_ = false;
    bool has_body_ = false, body_read_ = false, broken_ = false;
    int refused_ = 0;
};

}  // namespace tessera::server
