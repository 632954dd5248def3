#pragma once
// TLS over a connection's socket. OpenSSL, which does it, is seen by tls.cpp alone.
#include <memory>
#include <string>

namespace tessera::server {

/// What became of an attempt to read or write some bytes without waiting.
enum class Io { Done, WantRead, WantWrite, Closed };

/// The server's certificate and key. Any thread.
class TlsContext {
  public:
    /// Files in PEM; the certificate's has those of its authorities behind it, if any. Throws
    /// std::runtime_error that names the file.
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
    /// The socket does not block, and stays the caller's; the context must outlive this. Hands are shaken
    /// with the first reads.
    TlsStream(const TlsContext& context, int fd);
    /// Tells the client that no more comes, if it can be told at once.
    ~TlsStream();

    Io read(char* out, size_t n, size_t& n_read);
    Io write(const char* data, size_t n, size_t& n_written);
    /// Whether bytes have come that no poll of the socket tells of.
    bool pending() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::server
