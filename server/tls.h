#pragma once
// TLS over a connection's socket. Only tls.cpp includes OpenSSL.
#include <memory>
#include <string>

namespace tessera::server {

/// The outcome of an attempt to read or write without waiting.
enum class Io { Done, WantRead, WantWrite, Closed };

/// The server's certificate and key. Any thread.
class TlsContext {
  public:
    /// PEM files; intermediate certificates follow the server's in its file. Throws std::runtime_error naming
    /// the file.
    TlsContext(const std::string& certificate, const std::string& key);
    ~TlsContext();

  private:
    friend class TlsStream;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// One client's connection. One thread, in which SIGPIPE must do nothing.
class TlsStream {
  public:
    /// The socket is non-blocking and remains the caller's; the context outlives this object. The handshake
    /// happens during the first reads.
    TlsStream(const TlsContext& context, int fd);
    /// Sends the TLS shutdown, if the socket takes it at once.
    ~TlsStream();

    Io read(char* out, size_t n, size_t& n_read);
    Io write(const char* data, size_t n, size_t& n_written);
    /// Whether decrypted bytes are pending, which a poll of the socket does not show.
    bool pending() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::server
