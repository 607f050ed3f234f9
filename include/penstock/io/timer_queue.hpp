#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/io/work.hpp>

namespace penstock::io {

/// Nanoseconds on CLOCK_MONOTONIC.
using MonotonicTime = std::int64_t;

[[nodiscard]] MonotonicTime monotonic_now() noexcept;

/// A timer's place in a `TimerQueue`, embedded in its owner, which keeps it alive until it has run or
/// been cancelled. It can be cancelled until the moment its work runs.
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

    /// Takes out and returns the earliest timer whose deadline is not after `now`, or null. Timers that
    /// were added since `next_sequence` returned `added_before` are passed over, so that whoever runs
    /// timers whose callbacks add more of them comes to an end.
    [[nodiscard]] Timer* pop_due(MonotonicTime now, std::uint64_t added_before) noexcept;

    [[nodiscard]] std::uint64_t next_sequence() const noexcept { return sequence_; }

    [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
    [[nodiscard]] std::size_t capacity() const noexcept { return heap_.capacity(); }

    /// The earliest deadline; only when not empty.
    [[nodiscard]] MonotonicTime next_deadline() const noexcept { return heap_.front().deadline; }

    /// The scheduled timer at `position` in no particular order, for owners that visit all of them.
    [[nodiscard]] Timer& at(std::size_t position) const noexcept { return *heap_[position].timer; }

private:
    static constexpr std::size_t arity = 4;
    static constexpr std::size_t kept_capacity = 4096;

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
    void shrink() noexcept;
    [[nodiscard]] std::size_t find_due(std::size_t position, MonotonicTime now,
                                       std::uint64_t added_before) const noexcept;

    std::vector<Entry> heap_;
    std::uint64_t sequence_ = 0;
};

} // namespace penstock::io
