#include <penstock/io/wakeup.hpp>

#include <cerrno>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock::io {

namespace {

void ignore_event(Watch& /*watch*/, std::uint32_t /*events*/) {}

int make_eventfd() {
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        throw std::system_error(errno, std::system_category(), "eventfd");
    }
    return fd;
}

} // namespace

Wakeup::Wakeup(Poller& poller) : poller_(poller), watch_(&ignore_event), fd_(make_eventfd()) {
    if (const std::error_code error = poller_.add(watch_, fd_, readable, EPOLLET)) {
        ::close(fd_);
        throw std::system_error(error, "epoll_ctl on an eventfd");
    }
}

Wakeup::~Wakeup() {
    poller_.remove(watch_);
    ::close(fd_);
}

void Wakeup::post(Work& work) noexcept {
    posted_.push(work);
    if (blocked_.exchange(false, std::memory_order_seq_cst)) {
        signal();
    }
}

void Wakeup::notify() noexcept {
    notified_.store(true, std::memory_order_seq_cst);
    if (blocked_.exchange(false, std::memory_order_seq_cst)) {
        signal();
    }
}

void Wakeup::collect(WorkQueue& queue) noexcept {
    posted_.move_to(queue);
}

// Either this thread sees the post, or the poster sees `blocked_`: both sides write before they
// read, and sequential consistency gives all four accesses one order.
bool Wakeup::prepare_to_block() noexcept {
    blocked_.store(true, std::memory_order_seq_cst);
    if (!posted_.empty() || notified_.exchange(false, std::memory_order_seq_cst)) {
        awake();
        return false;
    }
    return true;
}

void Wakeup::signal() noexcept {
    const int saved = errno; // `notify` may run inside a signal handler
    const std::uint64_t one = 1;
    while (::write(fd_, &one, sizeof one) < 0) {
        if (errno == EAGAIN) {
            // The counter has reached its limit, because nothing reads it. Reset it.
            std::uint64_t count = 0;
            if (::read(fd_, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR) {
                break;
            }
        } else if (errno != EINTR) {
            break;
        }
    }
    errno = saved;
}

} // namespace penstock::io
