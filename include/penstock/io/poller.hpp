#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

#include <sys/epoll.h>

#include <penstock/io/fork_mark.hpp>

namespace penstock::io {

/// Readiness that a `Watch` asks for and is told of; the values are epoll's own (epoll_ctl(2)).
enum Readiness : std::uint32_t {
    readable = EPOLLIN,
    writable = EPOLLOUT,
    hung_up = EPOLLHUP, ///< always reported, never asked for
    failed = EPOLLERR,  ///< always reported, never asked for
};

/// A file descriptor's place in a `Poller`: embedded in its owner, which keeps it alive until
/// `Poller::remove`.
struct Watch {
    /// `events` is a union of `Readiness` bits. The function may remove or destroy this watch or any
    /// other one.
    using OnReady = void (*)(Watch&, std::uint32_t events);

    explicit Watch(OnReady function) noexcept : on_ready(function) {}

    OnReady on_ready;
    int fd = -1;
    std::uint32_t interest = 0;
};

/// epoll, level-triggered; a descriptor is registered once and stays registered for its life.
///
/// Level-triggered because a short read then needs no second `recv` that only fetches EAGAIN: what
/// was left is reported again. EPOLLONESHOT was rejected (one epoll_ctl an event), EPOLLET too
/// (every reader would have to drain).
///
/// The poller remembers which watch owns a descriptor number. When a descriptor was closed behind
/// its watch's back and the kernel hands the number out again, the newer watch takes over, and the
/// older one's later `remove` leaves it alone.
///
/// An event carries the descriptor's number and the generation of its registration, not the watch's
/// address: the kernel keeps a registration until the last copy of a descriptor is closed (a child
/// process may hold one), and after a `close` no epoll_ctl can end it. Events of such an orphan
/// reach nobody, and the poller then moves its watches to a new epoll instance, under the old
/// number, so that they do not keep the loop awake either.
///
/// A forked child has its parent's epoll instance, and what it took out there the parent would hear of no
/// more. So `remove` leaves that one alone in a child, and what has to change or ask it first moves the
/// watches to an instance of the child's own.
///
/// Not thread safe: only the loop's thread may call it.
class Poller {
public:
    /// Throws `std::system_error` when the kernel refuses an epoll instance (EMFILE, ENOMEM), or a page of
    /// memory.
    Poller();
    ~Poller();
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;

    /// Starts watching `fd`. Errors are epoll_ctl's: EBADF, EPERM (regular files), ENOMEM, ENOSPC.
    [[nodiscard]] std::error_code add(Watch& watch, int fd, std::uint32_t interest,
                                      std::uint32_t flags = 0) noexcept;

    /// Changes what a watch is told of. Interest 0 takes the descriptor out of epoll (which would
    /// otherwise go on to report a hang-up for ever); a later `update` puts it back.
    [[nodiscard]] std::error_code update(Watch& watch, std::uint32_t interest);

    /// Ends watching; events already fetched for this watch are dropped. Safe to call twice.
    void remove(Watch& watch) noexcept;

    /// Ends watching a descriptor that its user may have closed, and whose number may be another
    /// file's by now: no system call, what is registered is left behind. Safe to call twice.
    void forget(Watch& watch) noexcept;

    /// Blocks until something is ready, at most `timeout_ns` nanoseconds (negative: no limit), and
    /// returns the number of fetched events, 0 after a time-out, or -1 after EINTR.
    ///
    /// Touches no watch, so that a caller may release a lock around it.
    int wait(std::int64_t timeout_ns) noexcept;

    /// Calls `on_ready` for each event that `wait` fetched, until done or `interrupt`ed.
    void dispatch();

    /// Ends the running `dispatch` after the current watch. Undelivered events are not lost: the
    /// next `wait` reports them again.
    void interrupt() noexcept { count_ = 0; }

    /// The watch that stands for `fd`, or null.
    [[nodiscard]] Watch* owner_of(int fd) const noexcept {
        const auto index = static_cast<std::size_t>(fd);
        return fd >= 0 && index < slots_.size() ? slots_[index].watch : nullptr;
    }

    [[nodiscard]] int native_handle() const noexcept { return epoll_fd_; }

    /// In a forked child, as long as the watches are registered with the parent's instance.
    [[nodiscard]] bool is_parents() const noexcept { return fork_mark_.in_child(); }

private:
    static constexpr int batch_size = 256;

    /// What is known of one descriptor number. An event of another generation is stale: an orphan's,
    /// unless the slot has changed since the event was fetched.
    struct Slot {
        Watch* watch = nullptr;
        std::uint32_t generation = 0;
        std::uint32_t flags = 0;
        std::uint32_t changed_in_wait = 0;
    };

    [[nodiscard]] bool make_slot(int fd) noexcept;
    [[nodiscard]] const Slot* slot_for(const epoll_event& event) const noexcept;
    void vacate(Watch& watch) noexcept;
    [[nodiscard]] bool fetched_orphans() const noexcept;
    void renew() noexcept;
    [[nodiscard]] std::error_code part_from_parent() noexcept;

    ForkMark fork_mark_;
    int epoll_fd_;
    int count_ = 0;
    int position_ = 0;
    std::uint32_t waits_ = 0;
    bool precise_timeouts_ = true;
    bool orphans_possible_ = false;
    std::array<epoll_event, batch_size> events_;
    std::vector<Slot> slots_;
};

} // namespace penstock::io
