// The address of a benchmark's server: a TCP or UDP port of loopback, or a Unix socket.
#pragma once

#include "checked.hpp"

#include <cstring>
#include <string>
#include <sys/un.h>

namespace bench {

struct Address {
    std::uint16_t port = 0;
    std::string path;       // path of the Unix socket, unless empty
    bool datagrams = false; // whether the port is a UDP port

    [[nodiscard]] bool is_unix() const { return !path.empty(); }
};

inline sockaddr_un unix_address(const std::string& path) {
    sockaddr_un address{};
    if (path.size() >= sizeof address.sun_path) {
        throw std::system_error(ENAMETOOLONG, std::generic_category(), path);
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

inline int stream_socket(const Address& address, int flags = 0) {
    const int family = address.is_unix() ? AF_UNIX : AF_INET;
    return checked(socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), "socket");
}

// A connected socket, for TCP with Nagle's algorithm turned off.
inline int connect_to(const Address& address) {
    if (address.datagrams) {
        const int fd = checked(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
        const sockaddr_in name = loopback(address.port);
        checked(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), "connect");
        return fd;
    }
    const int fd = stream_socket(address);
    if (address.is_unix()) {
        const sockaddr_un name = unix_address(address.path);
        checked(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), "connect");
    } else {
        const sockaddr_in name = loopback(address.port);
        checked(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), "connect");
        set_no_delay(fd);
    }
    return fd;
}

// A non-blocking listening socket; a port of 0 is replaced by the one that the kernel chose.
inline int listen_stream(Address& address) {
    const int fd = stream_socket(address, SOCK_NONBLOCK);
    if (address.is_unix()) {
        const sockaddr_un name = unix_address(address.path);
        checked(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), "bind");
    } else {
        enable(fd, SOL_SOCKET, SO_REUSEADDR, "setsockopt(SO_REUSEADDR)");
        sockaddr_in name = loopback(address.port);
        socklen_t length = sizeof name;
        auto* generic = reinterpret_cast<sockaddr*>(&name);
        checked(bind(fd, generic, length), "bind");
        checked(getsockname(fd, generic, &length), "getsockname");
        address.port = ntohs(name.sin_port);
    }
    checked(listen(fd, SOMAXCONN), "listen");
    return fd;
}

} // namespace bench
