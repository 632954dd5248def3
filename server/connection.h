#pragma once
// One client's socket: what is read has a deadline and a size, and a request's head is checked before any
// parser sees it.
#include <chrono>
#include <string>

#include "server/http.h"
#include "server/tls.h"

namespace tessera::server {

using Clock = std::chrono::steady_clock;

/// A descriptor that can be polled and that one end sets for good. Any thread; raise() also in signal
/// handlers.
class Signal {
  public:
    Signal();
    ~Signal();
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;
    void raise();
    /// Takes it back. A raise() since is lost, so look for what it stands for afterwards.
    void clear();
    bool raised() const;
    int fd() const { return fd_; }

  private:
    int fd_;
};

/// One thread.
class Connection : public Peer {
  public:
    /// Owns the socket from here on. The rest outlives it: draining ends the wait for a next request,
    /// stopping all. Plain without `tls`.
    Connection(int fd, const HttpLimits& limits, const Signal& draining, const Signal& stopping,
               const TlsContext* tls = nullptr);
    ~Connection() override;

    enum class Head { Ok, Closed, Bad };
    /// Waits for the next request's head. Closed: there is none. Bad: refuse() has been called with the
    /// reason.
    Head read_head();
    /// Writes an error as the whole answer; nothing may follow it.
    void refuse(int status, const std::string& message);
    /// Status of the last refuse(), or 0.
    int refused() const { return refused_; }

    /// The head's bytes, then those of the body. -1 when they did not come in time, or were more than may
    /// come.
    ssize_t read(char* out, size_t n);
    bool readable() const;
    /// All of it, or -1 when the client does not take it in time.
    ssize_t write(const char* data, size_t n);
    bool writable() const { return !broken_; }

    Woken wait(int fd, double seconds) override;

    /// Whether the body was to come, and has not been read.
    bool body_pending() const { return has_body_ && !body_read_; }
    void set_body_read() { body_read_ = true; }
    /// As they came.
    const std::multimap<std::string, std::string, NoCase>& headers() const { return headers_; }
    int fd() const { return fd_; }

  private:
    bool check_head();
    bool check_request_line(const std::string& line);
    bool check_header(const std::string& line, std::string& kept);
    bool check_framing();
    /// Some bytes, without waiting.
    Io receive(char* out, size_t n, size_t& n_read);
    Io send(const char* data, size_t n, size_t& n_sent);
    /// Waits until some bytes are in; false at the deadline, the end, or the signal.
    bool fill(const Signal& signal);

    int fd_;
    std::unique_ptr<TlsStream> tls_;
    const HttpLimits& limits_;
    const Signal &draining_, &stopping_;
    std::string in_;  ///< come, and not read yet
    size_t taken_ = 0;
    size_t head_left_ = 0;  ///< bytes of the head that have not been read
    size_t body_budget_ = 0;
    Clock::time_point deadline_;
    std::multimap<std::string, std::string, NoCase> headers_;
    std::string method_;
    std::string length_;  ///< of the body, as it came
    bool has_length_ = false, chunked_ = false, old_version_ = false;
    bool has_body_ = false, body_read_ = false, broken_ = false;
    int refused_ = 0;
};

}  // namespace tessera::server
