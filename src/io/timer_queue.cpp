#include <penstock/io/timer_queue.hpp>

#include <algorithm>
#include <ctime>
#include <new>

namespace penstock::io {

MonotonicTime monotonic_now() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<MonotonicTime>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void TimerQueue::add(Timer& timer, MonotonicTime deadline) {
    const Entry entry{.deadline = deadline, .sequence = sequence_++, .timer = &timer};
    heap_.push_back(entry);
    timer.deadline = deadline;
    sift_up(heap_.size() - 1, entry);
}

void TimerQueue::cancel(Timer& timer) noexcept {
    if (timer.scheduled()) {
        remove_at(timer.index);
    }
}

Timer* TimerQueue::pop_due(MonotonicTime now, std::uint64_t added_before) noexcept {
    const std::size_t position = find_due(0, now, added_before);
    if (position == Timer::unscheduled) {
        return nullptr;
    }
    Timer& timer = *heap_[position].timer;
    remove_at(position);
    return &timer;
}

// Looks below an entry only when that one is due but too new: what is below it is later.
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

void TimerQueue::remove_at(std::size_t position) noexcept {
    heap_[position].timer->index = Timer::unscheduled;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (position < heap_.size()) {
        if (position > 0 && last.before(heap_[(position - 1) / arity])) {
            sift_up(position, last);
        } else {
            sift_down(position, last);
        }
    }
    // A burst's memory does not outlive the burst. Only at a quarter, so that a queue that shrinks
    // and grows does not move at every step.
    if (heap_.capacity() > kept_capacity && heap_.size() < heap_.capacity() / 4) {
        shrink();
    }
}

void TimerQueue::shrink() noexcept {
    try {
        std::vector<Entry> smaller;
        smaller.reserve(std::max(heap_.size() * 2, kept_capacity));
        smaller.assign(heap_.begin(), heap_.end());
        heap_.swap(smaller);
    } catch (const std::bad_alloc&) {
        return; // the larger memory serves as well
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
