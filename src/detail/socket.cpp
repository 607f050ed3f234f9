#include <penstock/detail/socket.hpp>

#include <cerrno>

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

} // namespace penstock::detail
