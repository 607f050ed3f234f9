#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

#include <sys/epoll.h>

#include <penstock/io/fork_mark.hpp>
#include <penstock/io/timer_queue.hpp>

namespace penstock::io {

/// Kinds of readiness. The values are epoll's own (epoll_ctl(2)).
enum Readiness : std::uint32_t {
    readable = EPOLLIN,
    writable = EPOLLOUT,
    hung_up = EPOLLHUP,      ///< always reported, never requested
    failed = EPOLLERR,       ///< always reported, never requested
    peer_ended = EPOLLRDHUP, ///< the peer sends no more, whether or not all was read
};

/// The registration of a file descriptor with a `Poller`. It is embedded in its owner, which keeps
/// it alive until `Poller::remove`.
struct Watch {
    /// `events` is a set of `Readiness` bits. The function may remove or destroy this watch or any
    /// other one.
    using OnReady = void (*)(Watch&, std::uint32_t events);

    explicit Watch(OnReady function) noexcept : on_ready(function) {}

    OnReady on_ready;
    int fd = -1;
    std::uint32_t interest = 0;
};

/// epoll, level-triggered. A descriptor is registered once and stays registered for its life.
///
/// Level-triggered, because after a short read no second `recv` is needed to get EAGAIN: remaining
/// data is reported again. Rejected: EPOLLONESHOT (one epoll_ctl for each event) and EPOLLET (every
/// reader would have to drain).
///
/// The poller knows which watch owns a descriptor number. If a descriptor was closed without
/// `remove` and the kernel reuses its number, the newer watch takes over, and a later `remove` of
/// the older one does not affect it.
///
/// An event carries the descriptor's number and the generation of its registration, not the watch's
/// address. The kernel keeps a registration until the last copy of the descriptor is closed, which
/// a child process may hold, and after a `close` no epoll_ctl can remove it. Events of such an
/// orphan are dropped, and the poller moves its watches to a new epoll instance under the old
/// number, so that the orphan does not keep the loop awake.
///
/// A forked child shares its parent's epoll instance. If the child removed a descriptor from it,
/// the parent would get no more events for that descriptor. In a child, `remove` therefore does not
/// touch that instance. Every other member that changes or queries it first moves the watches to an
/// instance of the child's own.
///
/// A wait of a millisecond or more has no time-out: a timer descriptor (timerfd_create(2)) in the
/// epoll instance ends it. For a time-out, the kernel sets up a timer in each wait and removes it
/// when an event comes, which costs about as much as a `recv` of a few bytes. The descriptor is set
/// anew only for an earlier deadline, or after it has expired. So the waits of a server whose
/// time-outs are seconds away cost as much as those of one without time-outs. Where the kernel
/// refuses a timer descriptor, waits have time-outs.
///
/// Not thread safe: only the loop's thread may call it.
class Poller {
public:
    /// Throws `std::system_error` when the kernel refuses an epoll instance (EMFILE, ENOMEM), or a
    /// page of memory.
    Poller();
    ~Poller();
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;

    /// Starts watching `fd`. Errors are epoll_ctl's: EBADF, EPERM (regular files), ENOMEM, ENOSPC.
    [[nodiscard]] std::error_code add(Watch& watch, int fd, std::uint32_t interest,
                                      std::uint32_t flags = 0) noexcept;

    /// Changes a watch's interest. Interest 0 removes the descriptor from epoll, which would
    /// otherwise report a hang-up again and again; a later `update` adds it again.
    [[nodiscard]] std::error_code update(Watch& watch, std::uint32_t interest);

    /// `update` that asks the kernel even if the interest stays: the descriptor may have been
    /// closed without `remove`, and its number may name another file, which is watched from now on.
    [[nodiscard]] std::error_code confirm(Watch& watch, std::uint32_t interest);

    /// Stops watching. Events already fetched for this watch are dropped. Safe to call twice.
    void remove(Watch& watch) noexcept;

    /// Stops watching a descriptor that may have been closed, and whose number may name another
    /// file by now. Makes no system call and leaves the registration behind. Safe to call twice.
    void forget(Watch& watch) noexcept;

    /// Blocks until a descriptor is ready, at most `timeout_ns` nanoseconds (negative: no limit).
    /// Returns the number of fetched events, 0 after a time-out, or -1 after EINTR.
    ///
    /// `now` is the time from which the limit counts, for a caller that has just asked the clock.
    ///
    /// Accesses no watch but the poller's own, so a caller may release a lock around it.
    int wait(std::int64_t timeout_ns) noexcept;
    int wait(std::int64_t timeout_ns, MonotonicTime now) noexcept;

    /// Calls `on_ready` for each event that `wait` has fetched, or until `interrupt`.
    void dispatch();

    /// Stops the running `dispatch` after the current watch. The other events are not lost: the
    /// next `wait` reports them again.
    void interrupt() noexcept {
        count_ = 0;
        alarm_.deadline = 0; // its event may be among those that are dropped
    }

    /// Whether a wait without a time-out would end at `deadline` or before it, because the timer
    /// descriptor is set.
    [[nodiscard]] bool wakes_by(MonotonicTime deadline) const noexcept {
        return alarm_.deadline != 0 && alarm_.deadline <= deadline && alarm_.fd >= 0 &&
               !is_parents();
    }

    /// The watch of `fd`, or null.
    [[nodiscard]] Watch* watch_of(int fd) const noexcept {
        const auto index = static_cast<std::size_t>(fd);
        return fd >= 0 && index < slots_.size() ? slots_[index].watch : nullptr;
    }

    /// How many waits have begun. An event that `dispatch` reports was fetched by the last one.
    [[nodiscard]] std::uint32_t waits() const noexcept { return waits_; }

    [[nodiscard]] int native_handle() const noexcept { return epoll_fd_; }

    /// Whether this is a forked child whose watches are still registered with the parent's
    /// instance.
    [[nodiscard]] bool is_parents() const noexcept { return fork_mark_.in_child(); }

private:
    static constexpr int batch_size = 256;

    /// The timer descriptor. Its watch is registered edge-triggered, so it is never read.
    struct Alarm : Watch {
        Alarm() noexcept : Watch(&on_expired) {}
        static void on_expired(Watch& watch, std::uint32_t events);
        MonotonicTime deadline = 0; ///< 0: not set, or expired
    };

    /// The state of one descriptor number. An event of another generation is stale. It is an
    /// orphan's if the slot has not changed since the event was fetched.
    struct Slot {
        Watch* watch = nullptr;
        std::uint32_t generation = 0;
        std::uint32_t flags = 0;
        std::uint32_t changed_in_wait = 0;
    };

    /// Grows the table for an open descriptor only, so that a wrong number costs no memory.
    [[nodiscard]] std::error_code make_slot(int fd) noexcept;
    [[nodiscard]] const Slot* slot_for(const epoll_event& event) const noexcept;
    void vacate(Watch& watch) noexcept;
    [[nodiscard, gnu::cold]] bool fetched_orphans() const noexcept;
    [[gnu::cold]] void renew() noexcept;
    [[nodiscard, gnu::cold]] std::error_code leave_parents_instance() noexcept;
    void make_alarm() noexcept;
    [[gnu::cold]] void leave_parents_alarm() noexcept;
    [[nodiscard]] bool set_alarm(MonotonicTime now, MonotonicTime deadline) noexcept;
    int fetch(std::int64_t timeout_ns) noexcept;
    int fetch_by_alarm(std::int64_t timeout_ns, MonotonicTime now) noexcept;

    ForkMark fork_mark_;
    int epoll_fd_;
    int count_ = 0;
    int position_ = 0;
    std::uint32_t waits_ = 0;
    bool precise_timeouts_ = true;
    bool orphans_possible_ = false;
    std::array<epoll_event, batch_size> events_;
    std::vector<Slot> slots_;
    Alarm alarm_;
};

} // namespace penstock::io
