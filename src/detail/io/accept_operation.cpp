#include <penstock/detail/io/accept_operation.hpp>

#include <cerrno>

#include <sys/socket.h>

namespace penstock::detail {

namespace {

bool is_transient(int error) noexcept {
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

} // namespace

int accept_connection(int listener) noexcept {
    for (;;) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 || !is_transient(errno)) {
            return fd;
        }
    }
}

} // namespace penstock::detail
