// The bytes of a connection over TLS 1.3. The certificate is not checked: the subject is the
// server's work with records.
#pragma once

#include "checked.hpp"
#include "openssl_checked.hpp"

#include <fcntl.h>

namespace bench {

inline SSL_CTX* client_context() {
    static SSL_CTX* const context = [] {
        SSL_CTX* one = made(SSL_CTX_new(TLS_client_method()), "SSL_CTX_new");
        SSL_CTX_set_min_proto_version(one, TLS1_3_VERSION);
        SSL_CTX_set_read_ahead(one, 1);
        SSL_CTX_set_mode(one, SSL_MODE_ENABLE_PARTIAL_WRITE);
        return one;
    }();
    return context;
}

class TlsChannel {
public:
    static constexpr bool buffers = true;

    void open(int fd) {
        ssl_ = made(SSL_new(client_context()), "SSL_new");
        SSL_set_fd(ssl_, fd);
        if (SSL_connect(ssl_) != 1) {
            throw_openssl("SSL_connect");
        }
        checked(fcntl(fd, F_SETFL, checked(fcntl(fd, F_GETFL), "fcntl") | O_NONBLOCK), "fcntl");
    }

    void end() {
        SSL_shutdown(ssl_);
        SSL_free(ssl_);
    }

    ssize_t receive(char* to, std::size_t size) {
        return outcome(ssl_, SSL_read(ssl_, to, static_cast<int>(size)), "SSL_read");
    }

    ssize_t send(const char* data, std::size_t size) {
        return outcome(ssl_, SSL_write(ssl_, data, static_cast<int>(size)), "SSL_write");
    }

private:
    SSL* ssl_ = nullptr;
};

} // namespace bench
