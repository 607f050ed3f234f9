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
    Work* head = posted_.load(std::memory_order_relaxed);
    do {
        work.next = head;
    } while (!posted_.compare_exchange_weak(head, &work, std::memory_order_seq_cst,
                                            std::memory_order_relaxed));
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
    if (posted_.load(std::memory_order_relaxed) == nullptr) {
        return;
    }
    Work* newest_first = posted_.exchange(nullptr, std::memory_order_acquire);
    Work* oldest_first = nullptr;
    while (newest_first != nullptr) {
        Work* following = newest_first->next;
        newest_first->next = oldest_first;
        oldest_first = newest_first;
        newest_first = following;
    }
    while (oldest_first != nullptr) {
        Work* following = oldest_first->next;
        queue.push_back(*oldest_first);
        oldest_first = following;
    }
}

// Either this thread sees the post, or the poster sees `blocked_`: both sides write before they
// read, in the one order that seq_cst gives to all of them.
bool Wakeup::prepare_to_block() noexcept {
    blocked_.store(true, std::memory_order_seq_cst);
    if (posted_.load(std::memory_order_seq_cst) != nullptr ||
        notified_.exchange(false, std::memory_order_seq_cst)) {
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
            // The counter, which nobody reads, is at its limit: start it again.
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
