#include <penstock/io/event_loop.hpp>

#include <cerrno>

#include <sys/epoll.h>

namespace penstock::io {

std::int64_t EventLoop::prepare() {
    if (completions_.engine != nullptr) {
        completions_.waiting = completions_.engine->flush();
    }
    wakeup_.collect(ready_);
    now_is_current_ = now_is_monotonic_ = false;
    if (!ready_.empty() || completions_.waiting) {
        return 0;
    }
    if (timers_.empty()) {
        return -1;
    }
    // The timer descriptor ends the wait at the right time, and at once if that is over.
    if (clock_ == nullptr && poller_.wakes_by(timers_.next_deadline())) {
        return -1;
    }
    now_ = now();
    now_is_monotonic_ = clock_ == nullptr;
    now_is_current_ = timers_.next_deadline() <= now_;
    return now_is_current_ ? 0 : timers_.next_deadline() - now_;
}

int EventLoop::block(std::int64_t timeout_ns) noexcept {
    events_fetched_ = false;
    if (timeout_ns == 0) {
        const bool due = fruitless_polls_ < eager_polls || unpolled_.renew_if_over() ||
                         work_since_poll_ >= work_between_polls;
        return due ? poll() : 0;
    }
    now_is_current_ = false;
    if (!wakeup_.prepare_to_block()) {
        return poll();
    }
    const int count = now_is_monotonic_ ? poller_.wait(timeout_ns, now_) : poller_.wait(timeout_ns);
    wakeup_.awake();
    fruitless_polls_ = 0;
    events_fetched_ = count > 0;
    return count;
}

int EventLoop::poll() noexcept {
    const int count = poller_.wait(0);
    fruitless_polls_ = count > 0 ? 0 : fruitless_polls_ + 1;
    work_since_poll_ = 0;
    return count;
}

// The coarse clock is enough for timers that are more than two ticks away. It is late where a
// hypervisor delays ticks: the next wait then ends at once. A wait without events has probably
// ended for a timer.
bool EventLoop::timers_may_be_due() const noexcept {
    return !timers_.empty() && (!events_fetched_ || clock_ != nullptr ||
                                timers_.next_deadline() <= coarse_monotonic_now());
}

void EventLoop::dispatch() {
    interrupted_ = false;
    wakeup_.collect(ready_);
    WorkQueue batch(std::move(ready_));
    const bool any_timers = timers_may_be_due();
    const MonotonicTime now = any_timers && !now_is_current_ ? this->now() : now_;
    const std::uint64_t added_before = timers_.next_sequence();
    run_batch(batch);
    if (!interrupted_) {
        poller_.dispatch();
    }
    if (completions_.waiting && !interrupted_) {
        deliver_completions();
    }
    if (any_timers) {
        run_due_timers(now, added_before);
    }
    ready_.prepend(batch);
}

std::error_code EventLoop::attach(FileEngine& engine) {
    if (completions_.engine != nullptr) {
        return {EBUSY, std::system_category()};
    }
    const std::error_code error = poller_.add(completions_, engine.descriptor(), readable, EPOLLET);
    if (!error) {
        completions_.engine = &engine;
    }
    return error;
}

void EventLoop::detach_files() noexcept {
    if (completions_.engine != nullptr && completions_.engine->in_child()) {
        poller_.forget(
            completions_); // the epoll instance is shared with the parent, which still uses it
    } else {
        poller_.remove(completions_);
    }
    completions_.engine = nullptr;
    completions_.waiting = false;
}

void EventLoop::on_completions(Watch& watch, std::uint32_t /*events*/) {
    static_cast<CompletionWatch&>(watch).loop.deliver_completions();
}

// Counted as work, so that a loop whose operations all complete at once still polls.
void EventLoop::deliver_completions() {
    completions_.waiting = false;
    work_since_poll_ += static_cast<unsigned>(completions_.engine->deliver());
}

// Each timer leaves the queue right before it runs: until then, callbacks that run before it in
// this iteration can still cancel and destroy it.
void EventLoop::run_due_timers(MonotonicTime now, std::uint64_t added_before) {
    while (!interrupted_) {
        Timer* timer = timers_.pop_due(now, added_before);
        if (timer == nullptr) {
            return;
        }
        ++work_since_poll_;
        timer->work.run(timer->work);
    }
}

void EventLoop::run_batch(WorkQueue& batch) {
    while (!interrupted_) {
        Work* work = batch.pop_front();
        if (work == nullptr) {
            return;
        }
        ++work_since_poll_;
        work->run(*work);
    }
}

void EventLoop::run_once(std::int64_t limit_ns) {
    std::int64_t limit = prepare();
    if (limit_ns >= 0 && (limit < 0 || limit > limit_ns)) {
        limit = limit_ns;
        poll_eagerly(); // not a busy loop: the caller waits for descriptors
    }
    block(limit);
    dispatch();
}

} // namespace penstock::io
