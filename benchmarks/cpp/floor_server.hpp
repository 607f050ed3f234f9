// The common part of the floors of the echo pages: level-triggered epoll, accepting, shutdown.
//
// `Floor` derives from FloorServer<Floor> and has `opened(fd)`, called for each new connection, and
// `ready(fd, events)`.
#pragma once

#include "address.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <unistd.h>
#include <utility>
#include <vector>

namespace bench {

template <typename Floor> class FloorServer {
public:
    // Returns at the end of standard input.
    void run() {
        std::array<epoll_event, 256> events{};
        while (true) {
            const int ready = restarted(
                [&] { return epoll_wait(epoll_, events.data(), events.size(), -1); }, "epoll_wait");
            for (int i = 0; i < ready; ++i) {
                const int fd = static_cast<int>(events[i].data.u64);
                if (fd == STDIN_FILENO) {
                    std::array<char, 64> unused{};
                    if (read(STDIN_FILENO, unused.data(), unused.size()) <= 0) {
                        return;
                    }
                } else if (fd == listener_) {
                    accept_all();
                } else {
                    static_cast<Floor*>(this)->ready(fd, events[i].events);
                }
            }
        }
    }

protected:
    // With more than one of `workers`, as many processes accept from the same socket.
    explicit FloorServer(Address address, int workers = 1) : address_(std::move(address)) {
        listener_ = listen_stream(address_);
        for (int number = 1; number < workers && checked(fork(), "fork") != 0; ++number) {
        }
        epoll_ = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
        watch(epoll_, EPOLL_CTL_ADD, listener_, EPOLLIN, static_cast<std::uint64_t>(listener_));
        // A regular file or /dev/null cannot be watched; such a server runs until it is killed.
        epoll_event event{};
        event.events = EPOLLIN | EPOLLHUP;
        event.data.u64 = STDIN_FILENO;
        epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    }

    [[nodiscard]] const Address& address() const { return address_; }

    void watch_for(int fd, std::uint32_t events) {
        watch(epoll_, EPOLL_CTL_MOD, fd, events, static_cast<std::uint64_t>(fd));
    }

private:
    void accept_all() {
        while (true) {
            const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0) {
                return;
            }
            if (!address_.is_unix()) {
                set_no_delay(fd);
            }
            static_cast<Floor*>(this)->opened(fd);
            watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN, static_cast<std::uint64_t>(fd));
        }
    }

    int epoll_ = -1;
    int listener_ = -1;
    Address address_;
};

// The state of each connection, by descriptor.
template <typename Connection> class ByDescriptor {
public:
    Connection& operator[](int fd) {
        const auto index = static_cast<std::size_t>(fd);
        if (index >= connections_.size()) {
            connections_.resize(index + 1);
        }
        return connections_[index];
    }

private:
    std::vector<Connection> connections_;
};

// A floor's main(): prints the server's address as one line when it is ready.
template <typename Make> int run_floor(const char* name, const Make& make) {
    try {
        auto server = make();
        std::printf("%s\n", server.ready_line().c_str());
        std::fflush(stdout);
        server.run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 1;
    }
    return 0;
}

} // namespace bench
