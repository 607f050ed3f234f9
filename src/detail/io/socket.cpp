#include <penstock/detail/io/socket.hpp>

#include <cerrno>

#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

namespace penstock::detail {

Result<int> open_socket(int family, int type, int protocol) noexcept {
    const int fd = ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    if (fd < 0) {
        return last_failure();
    }
    return fd;
}

Result<> set_option(int fd, int level, int option, int value) noexcept {
    if (::setsockopt(fd, level, option, &value, sizeof value) != 0) {
        return last_failure();
    }
    return {};
}

Result<int> get_option(int fd, int level, int option) noexcept {
    int value = 0;
    socklen_t size = sizeof value;
    if (::getsockopt(fd, level, option, &value, &size) != 0) {
        return last_failure();
    }
    return value;
}

Result<> check_tcp_socket(int fd) noexcept {
    const Result<int> family = get_option(fd, SOL_SOCKET, SO_DOMAIN);
    if (!family) {
        return failure(family.error());
    }
    const Result<int> protocol = get_option(fd, SOL_SOCKET, SO_PROTOCOL);
    if (!protocol) {
        return failure(protocol.error());
    }
    if ((*family != AF_INET && *family != AF_INET6) || *protocol != IPPROTO_TCP) {
        return failure(std::errc::wrong_protocol_type);
    }
    return {};
}

Result<> close_on_exec(int fd) noexcept {
    if (fd > STDERR_FILENO && ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return last_failure();
    }
    return {};
}

} // namespace penstock::detail
