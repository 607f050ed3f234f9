#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/io/work.hpp>

namespace penstock::io {

/// Nanoseconds on CLOCK_MONOTONIC.
using MonotonicTime = std::int64_t;

[[nodiscard]] MonotonicTime monotonic_now() noexcept;

/// A timer's place in a `TimerQueue`, embedded in its owner. When it is due its work becomes ready.
struct Timer {
    explicit Timer(Work::Run function) noexcept : work(function) {}

    [[nodiscard]] bool scheduled() const noexcept { return index != unscheduled; }

    static constexpr std::size_t unscheduled = static_cast<std::size_t>(-1);

    Work work;
    MonotonicTime deadline = 0;
    std::size_t index = unscheduled;
};

/// Timers in a 4-ary heap. Each timer knows its place, so a cancelled one is taken out at once: a
/// million cancelled timers hold no memory.
///
/// Rejected: marking cancelled timers and sweeping them later (asyncio does; a server whose every
/// request sets and cancels a time-out then carries them until their deadline), and a timer wheel
/// (coarse, and slower for the few hundred live timers that programs have).
///
/// Timers of equal deadline become due in the order in which they were added. Not thread safe.
class TimerQueue {
public:
    /// Throws `std::bad_alloc`; the timer is then not scheduled.
    void add(Timer& timer, MonotonicTime deadline);

    /// Takes a timer out; nothing happens when it is not scheduled.
    void cancel(Timer& timer) noexcept;

    /// Moves every timer whose deadline is not after `now` behind the work in `due`, earliest first.
    void collect_due(MonotonicTime now, WorkQueue& due) noexcept;

    [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
    [[nodiscard]] std::size_t capacity() const noexcept { return heap_.capacity(); }

    /// The earliest deadline; only when not empty.
    [[nodiscard]] MonotonicTime next_deadline() const noexcept { return heap_.front().deadline; }

    /// The scheduled timer at `position` in no particular order, for owners that visit all of them.
    [[nodiscard]] Timer& at(std::size_t position) const noexcept { return *heap_[position].timer; }

private:
    static constexpr std::size_t arity = 4;

    struct Entry {
        MonotonicTime deadline;
        std::uint64_t sequence;
        Timer* timer;

        [[nodiscard]] bool before(const Entry& other) const noexcept {
            return deadline != other.deadline ? deadline < other.deadline
                                              : sequence < other.sequence;
        }
    };

    void place(std::size_t position, const Entry& entry) noexcept {
        heap_[position] = entry;
        entry.timer->index = position;
    }
    void sift_up(std::size_t position, const Entry& entry) noexcept;
    void sift_down(std::size_t position, const Entry& entry) noexcept;
    void remove_at(std::size_t position) noexcept;

    std::vector<Entry> heap_;
    std::uint64_t sequence_ = 0;
};

} // namespace penstock::io
