#include <penstock/io/timer_queue.hpp>

#include <algorithm>
#include <ctime>

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

void TimerQueue::collect_due(MonotonicTime now, WorkQueue& due) noexcept {
    while (!heap_.empty() && heap_.front().deadline <= now) {
        Timer& timer = *heap_.front().timer;
        remove_at(0);
        due.push_back(timer.work);
    }
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
    } else if (heap_.empty() && heap_.capacity() > 4096) {
        heap_.shrink_to_fit(); // a burst's memory does not outlive the burst
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
