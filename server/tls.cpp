// The only file that uses OpenSSL. It never waits: connection.cpp has the sockets, waits and deadlines.
// TLS 1.2 and later, with OpenSSL's default ciphers.
#include "server/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <stdexcept>

namespace tessera::server {

namespace {

std::runtime_error failure(const std::string& what) {
    const unsigned long code = ERR_get_error();
    char reason[256] = "unknown reason";
    if (code != 0) ERR_error_string_n(code, reason, sizeof reason);
    ERR_clear_error();
    return std::runtime_error(what + ": " + reason);
}

struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
    void operator()(SSL* session) const { SSL_free(session); }
};

}  // namespace

struct TlsContext::Impl {
    std::unique_ptr<SSL_CTX, FreeContext> context{SSL_CTX_new(TLS_server_method())};
};

TlsContext::TlsContext(const std::string& certificate, const std::string& key)
    : impl_(std::make_unique<Impl>()) {
    SSL_CTX* const context = impl_->context.get();
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        throw failure("cannot set up TLS");
    // Clients that close without a TLS shutdown are common.
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
        throw failure("--tls-cert: '" + certificate + "' has no PEM certificate");
    if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
        throw failure("--tls-key: '" + key + "' has no PEM private key of the certificate");
}

TlsContext::~TlsContext() = default;

struct TlsStream::Impl {
    std::unique_ptr<SSL, FreeSession> session;
    bool failed = false;

    Io result(int returned) {
        if (returned > 0) return Io::Done;
        switch (SSL_get_error(session.get(), returned)) {
            case SSL_ERROR_WANT_READ:
                return Io::WantRead;
            case SSL_ERROR_WANT_WRITE:
                return Io::WantWrite;
            case SSL_ERROR_ZERO_RETURN:
                return Io::Closed;
            default:
                failed = true;  // no shutdown may be sent after this
                return Io::Closed;
        }
    }
};

TlsStream::TlsStream(const TlsContext& context, int fd) : impl_(std::make_unique<Impl>()) {
    impl_->session.reset(SSL_new(context.impl_->context.get()));
    if (!impl_->session || SSL_set_fd(impl_->session.get(), fd) != 1)
        throw failure("cannot open a TLS connection");
    SSL_set_accept_state(impl_->session.get());
}

TlsStream::~TlsStream() {
    ERR_clear_error();
    if (!impl_->failed && SSL_is_init_finished(impl_->session.get()))
        (void)SSL_shutdown(impl_->session.get());
    ERR_clear_error();
}

Io TlsStream::read(char* out, size_t n, size_t& n_read) {
    if (impl_->failed) return Io::Closed;
    ERR_clear_error();
    return impl_->result(SSL_read_ex(impl_->session.get(), out, n, &n_read));
}

Io TlsStream::write(const char* data, size_t n, size_t& n_written) {
    if (impl_->failed) return Io::Closed;
    ERR_clear_error();
    return impl_->result(SSL_write_ex(impl_->session.get(), data, n, &n_written));
}

bool TlsStream::pending() const { return SSL_has_pending(impl_->session.get()) == 1; }

}  // namespace tessera::server
