// The floor of the TLS page: the cheapest TLS echo server that OpenSSL's own socket BIO allows.
//
// Level-triggered epoll; SSL_read and SSL_write directly on the socket, with read-ahead, so that a
// record of any size costs one recv(2) and a reply one write(2).
//
// Takes the files of a certificate and its key. Prints its port as one line when it is ready. Exits
// at the end of its standard input.

#include "floor_server.hpp"
#include "openssl_checked.hpp"

#include <stdexcept>
#include <string>

namespace {

constexpr std::size_t kLargestRecord = 16384;

class TlsEchoFloor : public bench::FloorServer<TlsEchoFloor> {
public:
    TlsEchoFloor(const char* certificate, const char* key) : FloorServer(bench::Address()) {
        context_ = bench::made(SSL_CTX_new(TLS_server_method()), "SSL_CTX_new");
        SSL_CTX_set_read_ahead(context_, 1);
        SSL_CTX_set_mode(context_,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        if (SSL_CTX_use_certificate_chain_file(context_, certificate) != 1 ||
            SSL_CTX_use_PrivateKey_file(context_, key, SSL_FILETYPE_PEM) != 1) {
            bench::throw_openssl("loading the certificate");
        }
    }

    [[nodiscard]] std::string ready_line() const { return std::to_string(address().port); }

    void opened(int fd) {
        SSL* ssl = bench::made(SSL_new(context_), "SSL_new");
        SSL_set_fd(ssl, fd);
        SSL_set_accept_state(ssl);
        connections_[fd].ssl = ssl;
    }

    void ready(int fd, std::uint32_t /*events*/) {
        try {
            if (!connections_[fd].unsent.empty() ? send_rest(fd) : echo(fd)) {
                return;
            }
        } catch (const std::runtime_error&) {
            // The client has closed without close_notify.
        }
        close_connection(fd);
    }

private:
    struct Connection {
        SSL* ssl = nullptr;
        std::vector<char> unsent;
    };

    // Returns whether the connection is open.
    bool echo(int fd) {
        SSL* ssl = connections_[fd].ssl;
        do {
            const ssize_t count = bench::outcome(
                ssl, SSL_read(ssl, buffer_.data(), static_cast<int>(buffer_.size())), "SSL_read");
            if (count <= 0) {
                return count < 0;
            }
            const ssize_t sent = bench::outcome(
                ssl, SSL_write(ssl, buffer_.data(), static_cast<int>(count)), "SSL_write");
            if (sent < count) {
                connections_[fd].unsent.assign(buffer_.data() + (sent > 0 ? sent : 0),
                                               buffer_.data() + count);
                watch_for(fd, EPOLLOUT);
                return true;
            }
        } while (SSL_has_pending(ssl) == 1);
        return true;
    }

    bool send_rest(int fd) {
        Connection& waiting = connections_[fd];
        const ssize_t sent = bench::outcome(
            waiting.ssl,
            SSL_write(waiting.ssl, waiting.unsent.data(), static_cast<int>(waiting.unsent.size())),
            "SSL_write");
        if (sent > 0) {
            waiting.unsent.erase(waiting.unsent.begin(), waiting.unsent.begin() + sent);
        }
        if (!waiting.unsent.empty()) {
            return true;
        }
        watch_for(fd, EPOLLIN);
        return echo(fd);
    }

    void close_connection(int fd) {
        SSL_free(connections_[fd].ssl);
        connections_[fd] = {};
        close(fd);
    }

    SSL_CTX* context_ = nullptr;
    std::vector<char> buffer_ = std::vector<char>(kLargestRecord);
    bench::ByDescriptor<Connection> connections_;
};

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "tls_echo_floor: takes the files of a certificate and its key\n");
        return 1;
    }
    return bench::run_floor("tls_echo_floor", [&] { return TlsEchoFloor(argv[1], argv[2]); });
}
