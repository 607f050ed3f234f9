#include "io/files/completion_event.hpp"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock::io {

CompletionEvent::CompletionEvent() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) {
        throw std::system_error(errno, std::system_category(), "eventfd");
    }
}

CompletionEvent::~CompletionEvent() {
    ::close(fd_);
}

// EAGAIN cannot happen: an eventfd that is never read is full only after 2^64 - 2 writes.
void CompletionEvent::signal() noexcept {
    const std::uint64_t one = 1;
    while (::write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void CompletionEvent::clear() noexcept {
    std::uint64_t count = 0;
    while (::read(fd_, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

void CompletionEvent::wait(int milliseconds) const noexcept {
    pollfd watched{.fd = fd_, .events = POLLIN, .revents = 0};
    poll(&watched, 1, milliseconds);
}

} // namespace penstock::io
