// System calls that either succeed or throw std::system_error naming the call.
#pragma once

#include <cerrno>
#include <cstdint>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>

namespace bench {

template <typename Number> Number checked(Number result, const char* call) {
    if (result < 0) {
        throw std::system_error(errno, std::generic_category(), call);
    }
    return result;
}

// Like checked(), but repeats a call that a signal has interrupted. SIGCONT interrupts a socket
// with a timeout even without a handler (signal(7)).
template <typename Call> auto restarted(Call call, const char* name) {
    while (true) {
        const auto result = call();
        if (result >= 0 || errno != EINTR) {
            return checked(result, name);
        }
    }
}

inline sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

inline void enable(int fd, int level, int option, const char* name) {
    const int on = 1;
    checked(setsockopt(fd, level, option, &on, sizeof on), name);
}

inline void set_no_delay(int fd) {
    enable(fd, IPPROTO_TCP, TCP_NODELAY, "setsockopt(TCP_NODELAY)");
}

inline void watch(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t key) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = key;
    checked(epoll_ctl(epoll, operation, fd, &event), "epoll_ctl");
}

} // namespace bench
