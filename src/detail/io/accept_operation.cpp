#include <penstock/detail/io/accept_operation.hpp>

#include <cerrno>

#include <sys/socket.h>

#include <penstock/io/accept_error.hpp>

namespace penstock::detail {

int accept_connection(int listener) noexcept {
    for (;;) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 || io::kind_of_accept_error(errno) != io::AcceptError::of_connection) {
            return fd;
        }
    }
}

} // namespace penstock::detail
