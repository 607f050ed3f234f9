// The floor of the echo page: the cheapest TCP echo server that is still correct.
//
// Level-triggered epoll, one receive buffer for all connections, the reply sent at once from that
// buffer; only what the socket refuses is kept. Three system calls an echo when one connection is
// active, and no work of its own that could be left out: what a loop costs more than this is the
// loop.
//
// Prints its port, or the path given by --unix, as one line when it is ready, and ends when its
// standard input does.

#include "address.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using bench::checked;

constexpr std::size_t kReceiveBuffer = std::size_t{256} * 1024;

struct Connection {
    std::vector<char> unsent;
};

class EchoFloor {
public:
    explicit EchoFloor(bench::Address address) : address_(std::move(address)) {
        epoll_ = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
        listener_ = bench::listen_stream(address_);
        watch_new(listener_);
        // A regular file or /dev/null cannot be watched; such a server runs until it is killed.
        epoll_event event{};
        event.events = EPOLLIN | EPOLLHUP;
        event.data.u64 = STDIN_FILENO;
        epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    }

    [[nodiscard]] std::string ready_line() const {
        return address_.is_unix() ? address_.path : std::to_string(address_.port);
    }

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
            if (!address_.is_unix()) {
                bench::set_no_delay(fd);
            }
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
    bench::Address address_;
    std::vector<char> buffer_ = std::vector<char>(kReceiveBuffer);
    std::vector<Connection> connections_;
};

} // namespace

int main(int argc, char** argv) {
    try {
        bench::Address address;
        if (argc == 3 && std::string_view(argv[1]) == "--unix") {
            address.path = argv[2];
        } else if (argc != 1) {
            throw std::invalid_argument("takes --unix PATH or nothing");
        }
        EchoFloor server(std::move(address));
        std::printf("%s\n", server.ready_line().c_str());
        std::fflush(stdout);
        server.run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "echo_floor: %s\n", error.what());
        return 1;
    }
    return 0;
}
