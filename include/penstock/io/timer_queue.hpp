#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/io/work.hpp>

namespace penstock::io {

/// Nanoseconds on CLOCK_MONOTONIC.
using MonotonicTime = std::int64_t;

[[nodiscard]] MonotonicTime monotonic_now() noexcept;

/// A time that is not before `monotonic_now()`, and at most two ticks of the kernel after it (2 to
/// 20 ms). For deadlines of seconds: it costs a sixth.
///
/// Two ticks, because the kernel moves CLOCK_MONOTONIC_COARSE at a tick by whole intervals only, so
/// it is late by up to two. If a hypervisor delays the tick, the time may be earlier still.
[[nodiscard]] MonotonicTime coarse_monotonic_now() noexcept;

/// An entry of a `TimerQueue`. It is embedded in its owner, which keeps it alive until it has run
/// or was cancelled. It can be cancelled until its work runs.
struct Timer {
    explicit Timer(Work::Run function) noexcept : work(function) {}

    [[nodiscard]] bool scheduled() const noexcept { return index != unscheduled; }

    static constexpr std::size_t unscheduled = static_cast<std::size_t>(-1);

    Work work;
    MonotonicTime deadline = 0;
    std::size_t index = unscheduled;
};

/// Timers in a run and a 4-ary heap. The run holds timers that were added in the order of their
/// deadlines, as those of equal delay are: to add, cancel or pop one takes constant time. Any other
/// timer goes into the heap. Each timer knows its position, so a cancelled one is removed at once,
/// or leaves an empty entry until the next compaction of the run: a million cancelled timers use no
/// memory.
///
/// Rejected: the heap alone, because popping a burst of timers misses the cache at each of its
/// levels. Marking cancelled timers and removing them later, as asyncio does: a server that sets
/// and cancels a time-out for each request keeps all of them until their deadlines. A timer wheel:
/// it is coarse, and slower for the few hundred live timers that programs have.
///
/// Timers of equal deadline become due in the order in which they were added. Not thread safe.
class TimerQueue {
public:
    /// Throws `std::bad_alloc`, and the timer is then not scheduled.
    void add(Timer& timer, MonotonicTime deadline);

    /// Removes a timer. No effect if it is not scheduled.
    void cancel(Timer& timer) noexcept;

    /// Removes and returns the earliest timer whose deadline is not after `now`, or null. Skips
    /// timers that were added since `next_sequence` returned `added_before`, so that a loop over
    /// due timers ends even if their callbacks add more of them.
    [[nodiscard]] Timer* pop_due(MonotonicTime now, std::uint64_t added_before) noexcept;

    [[nodiscard]] std::uint64_t next_sequence() const noexcept { return sequence_; }

    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] std::size_t size() const noexcept { return heap_.size() + in_run_; }
    [[nodiscard]] std::size_t capacity() const noexcept {
        return heap_.capacity() + run_.capacity();
    }

    /// The earliest deadline. The queue must not be empty.
    [[nodiscard]] MonotonicTime next_deadline() const noexcept {
        if (in_run_ == 0) {
            return heap_.front().deadline;
        }
        const MonotonicTime first = run_[run_begin_].deadline;
        return heap_.empty() ? first : std::min(first, heap_.front().deadline);
    }

    /// Some scheduled timer. The queue must not be empty.
    [[nodiscard]] Timer& any() const noexcept {
        return *(in_run_ != 0 ? run_.back() : heap_.back()).timer;
    }

    /// Calls `visit(timer)` for each scheduled timer, in no particular order, until it returns
    /// something other than 0. Returns the last result. `visit` must not change the queue.
    template <typename Visit> int visit_all(Visit visit) const {
        for (const std::vector<Entry>* part : {&heap_, &run_}) {
            for (const Entry& entry : *part) {
                if (const int result = entry.timer != nullptr ? visit(*entry.timer) : 0) {
                    return result;
                }
            }
        }
        return 0;
    }

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

    /// Marks `Timer::index` as a position in the run.
    static constexpr std::size_t in_run = ~(Timer::unscheduled >> 1);

    void remove(Timer& timer) noexcept;

    void place(std::size_t position, const Entry& entry) noexcept {
        heap_[position] = entry;
        entry.timer->index = position;
    }
    void sift_up(std::size_t position, const Entry& entry) noexcept;
    void sift_down(std::size_t position, const Entry& entry) noexcept;
    void add_to_heap(const Entry& entry);
    void remove_from_heap(std::size_t position) noexcept;
    [[nodiscard]] std::size_t find_due(std::size_t position, MonotonicTime now,
                                       std::uint64_t added_before) const noexcept;

    [[nodiscard]] bool is_outlier_of_run(MonotonicTime deadline) const noexcept;
    void add_to_run(const Entry& entry);
    void remove_from_run(std::size_t position) noexcept;
    void compact_run() noexcept;
    static void shrink(std::vector<Entry>& entries) noexcept;

    std::vector<Entry> heap_;
    std::vector<Entry> run_;    ///< a cancelled or popped timer is null; the last one never is
    std::size_t run_begin_ = 0; ///< the first timer that is not null
    std::size_t in_run_ = 0;    ///< timers that are not null
    std::uint64_t sequence_ = 0;
};

} // namespace penstock::io
