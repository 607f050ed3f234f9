#include <penstock/io/timer_queue.hpp>

#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

namespace penstock::io {

namespace {

MonotonicTime nanoseconds_of(const timespec& time) noexcept {
    return static_cast<MonotonicTime>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

} // namespace

MonotonicTime monotonic_now() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return nanoseconds_of(now);
}

MonotonicTime coarse_monotonic_now() noexcept {
    static const MonotonicTime two_ticks = [] {
        timespec tick{};
        clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
        return 2 * nanoseconds_of(tick);
    }();
    timespec last_tick{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &last_tick);
    return nanoseconds_of(last_tick) + two_ticks;
}

void TimerQueue::add(Timer& timer, MonotonicTime deadline) {
    const Entry entry{.deadline = deadline, .sequence = sequence_++, .timer = &timer};
    timer.deadline = deadline;
    if (in_run_ == 0 || deadline >= run_.back().deadline) {
        add_to_run(entry);
    } else if (is_outlier_of_run(deadline)) {
        const Entry outlier = run_.back();
        add_to_heap(outlier);
        run_.back() = entry;
        timer.index = in_run | (run_.size() - 1);
    } else {
        add_to_heap(entry);
    }
}

void TimerQueue::cancel(Timer& timer) noexcept {
    if (timer.scheduled()) {
        remove(timer);
    }
}

Timer* TimerQueue::pop_due(MonotonicTime now, std::uint64_t added_before) noexcept {
    const Entry* first = in_run_ != 0 ? &run_[run_begin_] : nullptr;
    // Entries of the run that are behind one that is too new are newer still.
    if (first != nullptr && (first->deadline > now || first->sequence >= added_before)) {
        first = nullptr;
    }
    const std::size_t position = find_due(0, now, added_before);
    if (position != Timer::unscheduled && (first == nullptr || heap_[position].before(*first))) {
        first = &heap_[position];
    }
    if (first == nullptr) {
        return nullptr;
    }
    Timer& timer = *first->timer;
    remove(timer);
    return &timer;
}

void TimerQueue::remove(Timer& timer) noexcept {
    const std::size_t index = std::exchange(timer.index, Timer::unscheduled);
    if ((index & in_run) != 0) {
        remove_from_run(index & ~in_run);
    } else {
        remove_from_heap(index);
    }
}

// A distant deadline at the end of the run would send each nearer one that follows to the heap.
bool TimerQueue::is_outlier_of_run(MonotonicTime deadline) const noexcept {
    return in_run_ == 1 || deadline >= run_[run_.size() - 2].deadline;
}

void TimerQueue::add_to_run(const Entry& entry) {
    if (run_.size() == run_.capacity() && in_run_ < run_.size() / 2) {
        compact_run();
    }
    run_.push_back(entry);
    entry.timer->index = in_run | (run_.size() - 1);
    ++in_run_;
}

void TimerQueue::remove_from_run(std::size_t position) noexcept {
    run_[position].timer = nullptr;
    --in_run_;
    if (in_run_ == 0) {
        run_.clear();
        run_begin_ = 0;
    } else {
        while (run_[run_begin_].timer == nullptr) {
            ++run_begin_;
        }
        while (run_.back().timer == nullptr) {
            run_.pop_back();
        }
    }
    // Rarer than in the heap, because each timer that is moved must be changed.
    if (run_.capacity() > kept_capacity && in_run_ < run_.capacity() / 16) {
        compact_run();
        shrink(run_);
    }
}

void TimerQueue::compact_run() noexcept {
    std::size_t end = 0;
    for (std::size_t position = run_begin_; position < run_.size(); ++position) {
        if (Timer* timer = run_[position].timer) {
            run_[end] = run_[position];
            timer->index = in_run | end++;
        }
    }
    run_.erase(run_.begin() + static_cast<std::ptrdiff_t>(end), run_.end());
    run_begin_ = 0;
}

void TimerQueue::add_to_heap(const Entry& entry) {
    heap_.push_back(entry);
    sift_up(heap_.size() - 1, entry);
}

// Searches below an entry only if that one is due but too new: entries below are not earlier.
std::size_t TimerQueue::find_due(std::size_t position, MonotonicTime now,
                                 std::uint64_t added_before) const noexcept {
    if (position >= heap_.size() || heap_[position].deadline > now) {
        return Timer::unscheduled;
    }
    if (heap_[position].sequence < added_before) {
        return position;
    }
    std::size_t earliest = Timer::unscheduled;
    for (std::size_t child = position * arity + 1; child <= position * arity + arity; ++child) {
        const std::size_t found = find_due(child, now, added_before);
        if (found != Timer::unscheduled &&
            (earliest == Timer::unscheduled || heap_[found].before(heap_[earliest]))) {
            earliest = found;
        }
    }
    return earliest;
}

void TimerQueue::remove_from_heap(std::size_t position) noexcept {
    const Entry last = heap_.back();
    heap_.pop_back();
    if (position < heap_.size()) {
        if (position > 0 && last.before(heap_[(position - 1) / arity])) {
            sift_up(position, last);
        } else {
            sift_down(position, last);
        }
    }
    // Releases the memory of a burst, but only when less than a quarter is in use, so that a queue
    // whose size changes back and forth is not copied each time.
    if (heap_.capacity() > kept_capacity && heap_.size() < heap_.capacity() / 4) {
        shrink(heap_);
    }
}

void TimerQueue::shrink(std::vector<Entry>& entries) noexcept {
    try {
        std::vector<Entry> smaller;
        smaller.reserve(std::max(entries.size() * 2, kept_capacity));
        smaller.assign(entries.begin(), entries.end());
        entries.swap(smaller);
    } catch (const std::bad_alloc&) {
        return; // keeps the larger memory
    }
}

void TimerQueue::sift_up(std::size_t position, const Entry& entry) noexcept {
    while (position > 0) {
        const std::size_t parent = (position - 1) / arity;
        if (!entry.before(heap_[parent])) {
            break;
        }
        place(position, heap_[parent]);
        position = parent;
    }
    place(position, entry);
}

void TimerQueue::sift_down(std::size_t position, const Entry& entry) noexcept {
    const std::size_t size = heap_.size();
    for (;;) {
        const std::size_t first = position * arity + 1;
        if (first >= size) {
            break;
        }
        std::size_t smallest = first;
        const std::size_t end = std::min(first + arity, size);
        for (std::size_t child = first + 1; child < end; ++child) {
            if (heap_[child].before(heap_[smallest])) {
                smallest = child;
            }
        }
        if (!heap_[smallest].before(entry)) {
            break;
        }
        place(position, heap_[smallest]);
        position = smallest;
    }
    place(position, entry);
}

} // namespace penstock::io
