// The floor of the TLS page: the cheapest TLS echo server that OpenSSL's own socket BIO allows.
//
// Level-triggered epoll; SSL_read and SSL_write straight on the socket, with read-ahead, so that a
// record of any size costs one recv(2) and a reply one write(2).
//
// Takes the files of a certificate and its key. Prints its port as one line when it is ready, and
// ends when its standard input does.

#include "address.hpp"
#include "openssl_checked.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <unistd.h>
#include <vector>

namespace {

using bench::checked;

constexpr std::size_t kLargestRecord = 16384;

class TlsEchoFloor {
public:
    TlsEchoFloor(const char* certificate, const char* key) {
        context_ = bench::made(SSL_CTX_new(TLS_server_method()), "SSL_CTX_new");
        SSL_CTX_set_read_ahead(context_, 1);
        SSL_CTX_set_mode(context_,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        if (SSL_CTX_use_certificate_chain_file(context_, certificate) != 1 ||
            SSL_CTX_use_PrivateKey_file(context_, key, SSL_FILETYPE_PEM) != 1) {
            bench::throw_openssl("loading the certificate");
        }
        epoll_ = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
        listener_ = bench::listen_stream(address_);
        watch_new(listener_);
        // A regular file or /dev/null cannot be watched; such a server runs until it is killed.
        epoll_event event{};
        event.events = EPOLLIN | EPOLLHUP;
        event.data.u64 = STDIN_FILENO;
        epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    }

    [[nodiscard]] unsigned port() const { return address_.port; }

    void run() {
        std::array<epoll_event, 256> events{};
        while (true) {
            const int ready = epoll_wait(epoll_, events.data(), events.size(), -1);
            if (ready < 0 && errno == EINTR) {
                continue;
            }
            checked(ready, "epoll_wait");
            for (int i = 0; i < ready; ++i) {
                const int fd = static_cast<int>(events[i].data.u64);
                if (fd == STDIN_FILENO) {
                    if (read(STDIN_FILENO, buffer_.data(), buffer_.size()) <= 0) {
                        return;
                    }
                } else if (fd == listener_) {
                    accept_all();
                } else {
                    serve(fd);
                }
            }
        }
    }

private:
    struct Connection {
        SSL* ssl = nullptr;
        std::vector<char> unsent;
    };

    void watch_new(int fd) {
        bench::watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN, static_cast<std::uint64_t>(fd));
    }

    void accept_all() {
        while (true) {
            const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0) {
                return;
            }
            bench::set_no_delay(fd);
            if (static_cast<std::size_t>(fd) >= connections_.size()) {
                connections_.resize(static_cast<std::size_t>(fd) + 1);
            }
            SSL* ssl = bench::made(SSL_new(context_), "SSL_new");
            SSL_set_fd(ssl, fd);
            SSL_set_accept_state(ssl);
            connection(fd).ssl = ssl;
            watch_new(fd);
        }
    }

    void serve(int fd) {
        try {
            if (!connection(fd).unsent.empty() ? send_rest(fd) : echo(fd)) {
                return;
            }
        } catch (const std::runtime_error&) {
            // The client has gone without a farewell.
        }
        close_connection(fd);
    }

    // Whether the connection lives.
    bool echo(int fd) {
        SSL* ssl = connection(fd).ssl;
        do {
            const ssize_t count = bench::outcome(
                ssl, SSL_read(ssl, buffer_.data(), static_cast<int>(buffer_.size())), "SSL_read");
            if (count <= 0) {
                return count < 0;
            }
            const ssize_t sent = bench::outcome(
                ssl, SSL_write(ssl, buffer_.data(), static_cast<int>(count)), "SSL_write");
            if (sent < count) {
                connection(fd).unsent.assign(buffer_.data() + (sent > 0 ? sent : 0),
                                             buffer_.data() + count);
                bench::watch(epoll_, EPOLL_CTL_MOD, fd, EPOLLOUT, static_cast<std::uint64_t>(fd));
                return true;
            }
        } while (SSL_has_pending(ssl) == 1);
        return true;
    }

    bool send_rest(int fd) {
        Connection& waiting = connection(fd);
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
        bench::watch(epoll_, EPOLL_CTL_MOD, fd, EPOLLIN, static_cast<std::uint64_t>(fd));
        return echo(fd);
    }

    Connection& connection(int fd) { return connections_[static_cast<std::size_t>(fd)]; }

    void close_connection(int fd) {
        SSL_free(connection(fd).ssl);
        connection(fd) = {};
        close(fd);
    }

    SSL_CTX* context_ = nullptr;
    int epoll_ = -1;
    int listener_ = -1;
    bench::Address address_;
    std::vector<char> buffer_ = std::vector<char>(kLargestRecord);
    std::vector<Connection> connections_;
};

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "tls_echo_floor: takes the files of a certificate and its key\n");
        return 1;
    }
    try {
        TlsEchoFloor server(argv[1], argv[2]);
        std::printf("%u\n", server.port());
        std::fflush(stdout);
        server.run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tls_echo_floor: %s\n", error.what());
        return 1;
    }
    return 0;
}
