#include <penstock/io/poller.hpp>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <climits>
#include <ctime>
#include <limits>
#include <new>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace penstock::io {

namespace {

constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;
constexpr std::int64_t nanoseconds_per_millisecond = 1'000'000;

/// The shortest wait for which the timer descriptor is set. A nearer deadline would often have to
/// be set for one wait only, and a system call is not cheaper than a time-out.
constexpr std::int64_t shortest_alarm_ns = nanoseconds_per_millisecond;

timespec to_timespec(std::int64_t nanoseconds) noexcept {
    return {.tv_sec = static_cast<time_t>(nanoseconds / nanoseconds_per_second),
            .tv_nsec = static_cast<long>(nanoseconds % nanoseconds_per_second)};
}

std::error_code last_error() noexcept {
    return {errno, std::system_category()};
}

/// epoll_pwait2(2) as a raw system call: glibc has a wrapper only since 2.35.
int wait_precisely(int epoll_fd, epoll_event* events, int capacity,
                   std::int64_t timeout_ns) noexcept {
#ifdef SYS_epoll_pwait2
    const timespec limit = to_timespec(timeout_ns);
    return static_cast<int>(
        syscall(SYS_epoll_pwait2, epoll_fd, events, capacity, &limit, nullptr, 0));
#else
    (void)epoll_fd, (void)events, (void)capacity, (void)timeout_ns;
    errno = ENOSYS;
    return -1;
#endif
}

int make_timer_descriptor() noexcept {
    return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
}

/// Rounds up: after a wake-up before the deadline the loop would wait again.
int in_milliseconds(std::int64_t timeout_ns) noexcept {
    const std::int64_t milliseconds = timeout_ns / nanoseconds_per_millisecond +
                                      (timeout_ns % nanoseconds_per_millisecond != 0 ? 1 : 0);
    return milliseconds > INT_MAX ? INT_MAX : static_cast<int>(milliseconds);
}

std::uint64_t tag_of(int fd, std::uint32_t generation) noexcept {
    return static_cast<std::uint64_t>(generation) << 32 | static_cast<std::uint32_t>(fd);
}

std::error_code control(int epoll_fd, int operation, int fd, std::uint32_t events,
                        std::uint32_t generation) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag_of(fd, generation);
    return epoll_ctl(epoll_fd, operation, fd, &event) == 0 ? std::error_code{} : last_error();
}

} // namespace

Poller::Poller() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_fd_ < 0) {
        throw std::system_error(last_error(), "epoll_create1");
    }
    make_alarm();
}

Poller::~Poller() {
    if (alarm_.fd >= 0) {
        ::close(alarm_.fd);
    }
    ::close(epoll_fd_);
}

std::error_code Poller::make_slot(int fd) noexcept {
    const auto index = static_cast<std::size_t>(fd);
    if (index < slots_.size()) {
        return {};
    }
    rlimit limit{};
    if (::fcntl(fd, F_GETFD) < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return last_error();
    }
    // Ahead of further descriptors, but not beyond the number that this process may open.
    const auto most = std::max<std::size_t>(index + 1, limit.rlim_cur);
    try {
        slots_.resize(std::min(index + index / 2 + 16, most));
    } catch (const std::bad_alloc&) {
        return {ENOMEM, std::system_category()}; // like a kernel error, so callers have one cleanup
    }
    return {};
}

const Poller::Slot* Poller::slot_for(const epoll_event& event) const noexcept {
    const auto fd = static_cast<std::uint32_t>(event.data.u64);
    const auto generation = static_cast<std::uint32_t>(event.data.u64 >> 32);
    const Slot& slot = slots_[fd];
    return slot.watch != nullptr && slot.generation == generation ? &slot : nullptr;
}

std::error_code Poller::add(Watch& watch, int fd, std::uint32_t interest,
                            std::uint32_t flags) noexcept {
    assert(watch.fd < 0 && "a watch is registered for one descriptor at a time");
    if (fd < 0) {
        return {EBADF, std::system_category()};
    }
    if (is_parents()) {
        if (const std::error_code error = leave_parents_instance()) {
            return error;
        }
    }
    if (const std::error_code error = make_slot(fd)) {
        return error;
    }
    Slot& slot = slots_[static_cast<std::size_t>(fd)];
    const std::uint32_t generation = slot.generation + 1;
    const bool registered = slot.watch != nullptr && slot.watch->interest != 0;
    std::error_code error;
    if (interest != 0) {
        error = control(epoll_fd_, EPOLL_CTL_ADD, fd, interest | flags, generation);
        if (error.value() == EEXIST) {
            error = control(epoll_fd_, EPOLL_CTL_MOD, fd, interest | flags, generation);
        } else if (!error && registered) {
            // The number was closed without `remove`, and now names another file.
            orphans_possible_ = true;
        }
    } else if (registered && control(epoll_fd_, EPOLL_CTL_DEL, fd, 0, 0)) {
        orphans_possible_ = true;
    }
    if (error) {
        return error;
    }
    if (slot.watch != nullptr) {
        slot.watch->fd = -1;
        slot.watch->interest = 0;
    }
    slot = {.watch = &watch, .generation = generation, .flags = flags, .changed_in_wait = waits_};
    watch.fd = fd;
    watch.interest = interest;
    return {};
}

std::error_code Poller::update(Watch& watch, std::uint32_t interest) {
    return watch.fd >= 0 && interest == watch.interest ? std::error_code()
                                                       : confirm(watch, interest);
}

std::error_code Poller::confirm(Watch& watch, std::uint32_t interest) {
    if (watch.fd < 0) {
        return {EBADF, std::system_category()};
    }
    Slot& slot = slots_[static_cast<std::size_t>(watch.fd)];
    std::error_code error;
    if (is_parents()) {
        if (interest == 0) {
            watch.interest = 0;
            return {};
        }
        error = leave_parents_instance();
        if (error) {
            return error;
        }
    }
    if (interest == 0) {
        error = control(epoll_fd_, EPOLL_CTL_DEL, watch.fd, 0, 0);
        if (error.value() == ENOENT || error.value() == EBADF) {
            error.clear(); // closed by its user: there is nothing to remove under this number
            orphans_possible_ = true;
        }
    } else {
        const std::uint32_t events = interest | slot.flags;
        error.assign(ENOENT, std::system_category());
        if (watch.interest != 0) {
            error = control(epoll_fd_, EPOLL_CTL_MOD, watch.fd, events, slot.generation);
        }
        if (error.value() == ENOENT) { // not registered, or the number was closed and reused
            const std::uint32_t generation = slot.generation + 1;
            error = control(epoll_fd_, EPOLL_CTL_ADD, watch.fd, events, generation);
            if (error.value() == EEXIST) {
                error = control(epoll_fd_, EPOLL_CTL_MOD, watch.fd, events, generation);
            }
            if (!error) {
                orphans_possible_ |= watch.interest != 0;
                slot.generation = generation;
                slot.changed_in_wait = waits_;
            }
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
    if (watch.interest != 0 && !is_parents() && control(epoll_fd_, EPOLL_CTL_DEL, watch.fd, 0, 0)) {
        orphans_possible_ = true;
    }
    vacate(watch);
}

void Poller::forget(Watch& watch) noexcept {
    if (watch.fd >= 0) {
        orphans_possible_ |= watch.interest != 0;
        vacate(watch);
    }
}

void Poller::vacate(Watch& watch) noexcept {
    Slot& slot = slots_[static_cast<std::size_t>(watch.fd)];
    slot.watch = nullptr;
    slot.changed_in_wait = waits_;
    watch.fd = -1;
    watch.interest = 0;
}

// A watch that was removed in this iteration is not an orphan: moving all watches would be useless.
bool Poller::fetched_orphans() const noexcept {
    for (int i = 0; i < count_; ++i) {
        const epoll_event& event = events_[static_cast<std::size_t>(i)];
        const auto fd = static_cast<std::uint32_t>(event.data.u64);
        if (slot_for(event) == nullptr && slots_[fd].changed_in_wait != waits_) {
            return true;
        }
    }
    return false;
}

// If the kernel refuses, the old instance stays, and a later dispatch tries again.
void Poller::renew() noexcept {
    const int fresh = epoll_create1(EPOLL_CLOEXEC);
    if (fresh < 0) {
        return;
    }
    for (std::size_t index = 0; index < slots_.size(); ++index) {
        const Slot& slot = slots_[index];
        if (slot.watch == nullptr || slot.watch->interest == 0) {
            continue;
        }
        const auto fd = static_cast<int>(index);
        const std::uint32_t events = slot.watch->interest | slot.flags;
        if (control(epoll_fd_, EPOLL_CTL_MOD, fd, events, slot.generation)) {
            continue; // closed by its user; the number may name an unrelated file by now
        }
        if (control(fresh, EPOLL_CTL_ADD, fd, events, slot.generation)) {
            ::close(fresh);
            return;
        }
    }
    if (::dup3(fresh, epoll_fd_, O_CLOEXEC) == epoll_fd_) {
        orphans_possible_ = false;
    }
    ::close(fresh);
}

// A descriptor that was closed without `remove` is skipped.
std::error_code Poller::leave_parents_instance() noexcept {
    leave_parents_alarm();
    const int fresh = epoll_create1(EPOLL_CLOEXEC);
    if (fresh < 0) {
        return last_error();
    }
    for (std::size_t index = 0; index < slots_.size(); ++index) {
        const Slot& slot = slots_[index];
        if (slot.watch == nullptr || slot.watch->interest == 0) {
            continue;
        }
        const std::error_code error = control(fresh, EPOLL_CTL_ADD, static_cast<int>(index),
                                              slot.watch->interest | slot.flags, slot.generation);
        if (error && error.value() != EBADF) {
            ::close(fresh);
            return error;
        }
    }
    const bool moved = ::dup3(fresh, epoll_fd_, O_CLOEXEC) == epoll_fd_;
    const std::error_code error = moved ? std::error_code() : last_error();
    ::close(fresh);
    if (moved) {
        fork_mark_.take_over();
        position_ = count_ = 0; // the parent's events: the new instance reports those that persist
        orphans_possible_ = false;
    }
    return error;
}

int Poller::wait(std::int64_t timeout_ns) noexcept {
    return wait(timeout_ns, timeout_ns >= shortest_alarm_ns ? monotonic_now() : 0);
}

int Poller::wait(std::int64_t timeout_ns, MonotonicTime now) noexcept {
    if (is_parents() && leave_parents_instance()) {
        constexpr int pause =
            10; // milliseconds; no busy loop while descriptors or memory are short
        ::poll(nullptr, 0, pause);
        position_ = count_ = 0;
        return 0;
    }
    ++waits_;
    const int count =
        timeout_ns >= shortest_alarm_ns ? fetch_by_alarm(timeout_ns, now) : fetch(timeout_ns);
    position_ = 0;
    count_ = count < 0 ? 0 : count;
    return count;
}

int Poller::fetch(std::int64_t timeout_ns) noexcept {
    if (timeout_ns > 0 && precise_timeouts_) {
        const int count = wait_precisely(epoll_fd_, events_.data(), batch_size, timeout_ns);
        if (count >= 0 || errno != ENOSYS) {
            return count;
        }
        precise_timeouts_ = false; // before Linux 5.11
    }
    const int limit = timeout_ns < 0 ? -1 : in_milliseconds(timeout_ns);
    return epoll_wait(epoll_fd_, events_.data(), batch_size, limit);
}

// The descriptor may expire before the deadline of this wait, because a wait before had an earlier
// one. It is then set anew, so that a wait never ends early.
int Poller::fetch_by_alarm(std::int64_t timeout_ns, MonotonicTime now) noexcept {
    const MonotonicTime latest = std::numeric_limits<MonotonicTime>::max();
    const MonotonicTime deadline = timeout_ns < latest - now ? now + timeout_ns : latest;
    while (now < deadline) {
        if (!set_alarm(now, deadline)) {
            return fetch(deadline - now);
        }
        const int count = fetch(-1);
        if (count != 1 || slot_for(events_[0]) != &slots_[static_cast<std::size_t>(alarm_.fd)]) {
            return count;
        }
        alarm_.deadline = 0;
        now = monotonic_now();
    }
    return 0;
}

/// Whether the timer descriptor is set to expire after `now`, and not after `deadline`.
bool Poller::set_alarm(MonotonicTime now, MonotonicTime deadline) noexcept {
    if (alarm_.fd < 0) {
        return false;
    }
    if (alarm_.deadline > now && alarm_.deadline <= deadline) {
        return true;
    }
    const itimerspec expiry{.it_interval = {}, .it_value = to_timespec(deadline)};
    if (timerfd_settime(alarm_.fd, TFD_TIMER_ABSTIME, &expiry, nullptr) != 0) {
        forget(alarm_); // its user has closed the number
        return false;
    }
    alarm_.deadline = deadline;
    return true;
}

void Poller::Alarm::on_expired(Watch& watch, std::uint32_t /*events*/) {
    static_cast<Alarm&>(watch).deadline = 0;
}

void Poller::make_alarm() noexcept {
    const int fd = make_timer_descriptor();
    if (fd >= 0 && add(alarm_, fd, readable, EPOLLET)) {
        ::close(fd);
    }
}

// If the child set the parent's timer, it would move the parent's deadline.
void Poller::leave_parents_alarm() noexcept {
    if (alarm_.fd < 0) {
        return;
    }
    alarm_.deadline = 0;
    const int fresh = make_timer_descriptor();
    if (fresh < 0 || ::dup3(fresh, alarm_.fd, O_CLOEXEC) < 0) {
        ::close(alarm_.fd);
        vacate(alarm_);
    }
    if (fresh >= 0) {
        ::close(fresh);
    }
}

void Poller::dispatch() {
    if (orphans_possible_ && fetched_orphans()) {
        renew();
    }
    while (position_ < count_) {
        const epoll_event& event = events_[static_cast<std::size_t>(position_++)];
        if (const Slot* slot = slot_for(event)) {
            // An earlier callback may have changed this watch's interest.
            Watch& watch = *slot->watch;
            const std::uint32_t events = event.events & (watch.interest | hung_up | failed);
            if (watch.interest != 0 && events != 0) {
                watch.on_ready(watch, events);
            }
        }
    }
    position_ = count_ = 0;
}

} // namespace penstock::io
