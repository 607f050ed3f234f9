#include <penstock/io/poller.hpp>

#include <cassert>
#include <cerrno>
#include <climits>
#include <ctime>

#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::io {

namespace {

constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;
constexpr std::int64_t nanoseconds_per_millisecond = 1'000'000;

std::error_code last_error() noexcept {
    return {errno, std::system_category()};
}

/// epoll_pwait2(2), by number: the C library has a wrapper only since glibc 2.35.
int wait_precisely(int epoll_fd, epoll_event* events, int capacity,
                   std::int64_t timeout_ns) noexcept {
#ifdef SYS_epoll_pwait2
    const timespec limit{.tv_sec = static_cast<time_t>(timeout_ns / nanoseconds_per_second),
                         .tv_nsec = static_cast<long>(timeout_ns % nanoseconds_per_second)};
    return static_cast<int>(
        syscall(SYS_epoll_pwait2, epoll_fd, events, capacity, &limit, nullptr, 0));
#else
    (void)epoll_fd, (void)events, (void)capacity, (void)timeout_ns;
    errno = ENOSYS;
    return -1;
#endif
}

/// Rounded up: waking before the deadline would only mean waiting once more.
int in_milliseconds(std::int64_t timeout_ns) noexcept {
    const std::int64_t milliseconds =
        (timeout_ns + nanoseconds_per_millisecond - 1) / nanoseconds_per_millisecond;
    return milliseconds > INT_MAX ? INT_MAX : static_cast<int>(milliseconds);
}

} // namespace

Poller::Poller() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_fd_ < 0) {
        throw std::system_error(last_error(), "epoll_create1");
    }
}

Poller::~Poller() {
    ::close(epoll_fd_);
}

Watch*& Poller::owner(int fd) {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= owners_.size()) {
        owners_.resize(index + index / 2 + 16);
    }
    return owners_[index];
}

std::error_code Poller::control(int operation, Watch& watch, std::uint32_t events) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.ptr = &watch;
    return epoll_ctl(epoll_fd_, operation, watch.fd, &event) == 0 ? std::error_code{}
                                                                  : last_error();
}

std::error_code Poller::add(Watch& watch, int fd, std::uint32_t interest, std::uint32_t flags) {
    assert(watch.fd < 0 && "a watch stands for one descriptor at a time");
    if (fd < 0) {
        return {EBADF, std::system_category()};
    }
    Watch*& slot = owner(fd);
    watch.fd = fd;
    std::error_code error;
    if (interest != 0) {
        error = control(EPOLL_CTL_ADD, watch, interest | flags);
        if (error.value() == EEXIST) {
            error = control(EPOLL_CTL_MOD, watch, interest | flags);
        }
    }
    if (error) {
        watch.fd = -1;
        return error;
    }
    if (slot != nullptr) {
        // The number was closed without `remove` and now belongs to another file.
        forget_events(*slot);
        slot->fd = -1;
        slot->interest = 0;
    }
    slot = &watch;
    watch.interest = interest;
    return {};
}

std::error_code Poller::update(Watch& watch, std::uint32_t interest) {
    if (watch.fd < 0) {
        return {EBADF, std::system_category()};
    }
    if (interest == watch.interest) {
        return {};
    }
    std::error_code error;
    if (interest == 0) {
        error = control(EPOLL_CTL_DEL, watch, 0);
        if (error.value() == ENOENT || error.value() == EBADF) {
            error.clear(); // closed by its user: the kernel has taken it out already
        }
        forget_events(watch);
    } else {
        error = control(watch.interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, watch, interest);
        if (error.value() == ENOENT) {
            error = control(EPOLL_CTL_ADD, watch, interest); // closed, and the number reused
        } else if (error.value() == EEXIST) {
            error = control(EPOLL_CTL_MOD, watch, interest);
        }
    }
    if (!error) {
        watch.interest = interest;
    }
    return error;
}

void Poller::remove(Watch& watch) noexcept {
    if (watch.fd < 0) {
        return;
    }
    if (watch.interest != 0) {
        control(EPOLL_CTL_DEL, watch, 0);
        forget_events(watch);
    }
    owners_[static_cast<std::size_t>(watch.fd)] = nullptr;
    watch.fd = -1;
    watch.interest = 0;
}

void Poller::forget_events(const Watch& watch) noexcept {
    for (int i = position_; i < count_; ++i) {
        if (events_[static_cast<std::size_t>(i)].data.ptr == &watch) {
            events_[static_cast<std::size_t>(i)].data.ptr = nullptr;
        }
    }
}

int Poller::wait(std::int64_t timeout_ns) noexcept {
    int count = -1;
    if (timeout_ns > 0 && precise_timeouts_) {
        count = wait_precisely(epoll_fd_, events_.data(), batch_size, timeout_ns);
        if (count < 0 && errno == ENOSYS) {
            precise_timeouts_ = false; // before Linux 5.11
        }
    }
    if (timeout_ns <= 0 || !precise_timeouts_) {
        const int limit = timeout_ns < 0 ? -1 : in_milliseconds(timeout_ns);
        count = epoll_wait(epoll_fd_, events_.data(), batch_size, limit);
    }
    position_ = 0;
    count_ = count < 0 ? 0 : count;
    return count;
}

void Poller::dispatch() {
    while (position_ < count_) {
        const epoll_event& event = events_[static_cast<std::size_t>(position_++)];
        if (event.data.ptr != nullptr) {
            auto& watch = *static_cast<Watch*>(event.data.ptr);
            watch.on_ready(watch, event.events);
        }
    }
    position_ = count_ = 0;
}

} // namespace penstock::io
