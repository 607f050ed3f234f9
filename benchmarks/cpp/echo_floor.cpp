// The floor of the echo page: the cheapest TCP echo server that is still correct.
//
// Level-triggered epoll, one receive buffer for all connections, the reply sent at once from that
// buffer; only what the socket refuses is kept. Three system calls an echo when one connection is
// active, and no work of its own that could be left out: what a loop costs more than this is the
// loop.
//
// Prints its port as one line when it is ready, and ends when its standard input does.

#include "checked.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <unistd.h>
#include <vector>

namespace {

using bench::checked;

constexpr std::size_t kReceiveBuffer = std::size_t{256} * 1024;

struct Connection {
    std::vector<char> unsent;
};

class EchoFloor {
public:
    EchoFloor() {
        epoll_ = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
        listener_ =
            checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
        bench::enable(listener_, SOL_SOCKET, SO_REUSEADDR, "setsockopt(SO_REUSEADDR)");
        sockaddr_in address = bench::loopback(0);
        socklen_t length = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        checked(bind(listener_, generic, length), "bind");
        checked(listen(listener_, SOMAXCONN), "listen");
        checked(getsockname(listener_, generic, &length), "getsockname");
        port_ = ntohs(address.sin_port);
        watch_new(listener_);
        // A regular file or /dev/null cannot be watched; such a server runs until it is killed.
        epoll_event event{};
        event.events = EPOLLIN | EPOLLHUP;
        event.data.u64 = STDIN_FILENO;
        epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    }

    [[nodiscard]] unsigned port() const { return port_; }

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
                } else if ((events[i].events & EPOLLOUT) != 0) {
                    send_rest(fd);
                } else {
                    echo(fd);
                }
            }
        }
    }

private:
    void watch_new(int fd) {
        bench::watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN, static_cast<std::uint64_t>(fd));
    }

    // While a reply waits for room nothing more is read: the client's pace is the server's.
    void watch_for(int fd, std::uint32_t events) {
        bench::watch(epoll_, EPOLL_CTL_MOD, fd, events, static_cast<std::uint64_t>(fd));
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
            watch_new(fd);
        }
    }

    void echo(int fd) {
        const ssize_t received = recv(fd, buffer_.data(), buffer_.size(), 0);
        if (received <= 0) {
            if (received < 0 && errno == EAGAIN) {
                return;
            }
            close_connection(fd);
            return;
        }
        const ssize_t sent =
            send(fd, buffer_.data(), static_cast<std::size_t>(received), MSG_NOSIGNAL);
        if (sent == received) {
            return;
        }
        if (sent < 0 && errno != EAGAIN) {
            close_connection(fd);
            return;
        }
        connection(fd).unsent.assign(buffer_.data() + (sent > 0 ? sent : 0),
                                     buffer_.data() + received);
        watch_for(fd, EPOLLOUT);
    }

    void send_rest(int fd) {
        std::vector<char>& unsent = connection(fd).unsent;
        const ssize_t sent = send(fd, unsent.data(), unsent.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN) {
                close_connection(fd);
            }
            return;
        }
        unsent.erase(unsent.begin(), unsent.begin() + sent);
        if (unsent.empty()) {
            watch_for(fd, EPOLLIN);
        }
    }

    Connection& connection(int fd) { return connections_[static_cast<std::size_t>(fd)]; }

    void close_connection(int fd) {
        connection(fd).unsent.clear();
        close(fd);
    }

    int epoll_ = -1;
    int listener_ = -1;
    unsigned port_ = 0;
    std::vector<char> buffer_ = std::vector<char>(kReceiveBuffer);
    std::vector<Connection> connections_;
};

} // namespace

int main() {
    try {
        EchoFloor server;
        std::printf("%u\n", server.port());
        std::fflush(stdout);
        server.run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "echo_floor: %s\n", error.what());
        return 1;
    }
    return 0;
}
