#include <penstock/io/event_loop.hpp>

namespace penstock::io {

std::int64_t EventLoop::prepare() {
    if (file_engine_ != nullptr) {
        file_engine_->flush();
    }
    wakeup_.collect(ready_);
    now_is_current_ = false;
    if (!ready_.empty()) {
        return 0;
    }
    if (timers_.empty()) {
        return -1;
    }
    now_ = monotonic_now();
    const std::int64_t remaining = timers_.next_deadline() - now_;
    if (remaining > 0) {
        return remaining;
    }
    now_is_current_ = true;
    return 0;
}

int EventLoop::block(std::int64_t timeout_ns) noexcept {
    if (timeout_ns == 0) {
        const bool due = fruitless_polls_ < eager_polls || work_since_poll_ >= work_between_polls;
        return due ? poll() : 0;
    }
    now_is_current_ = false;
    if (!wakeup_.prepare_to_block()) {
        return poll();
    }
    const int count = poller_.wait(timeout_ns);
    wakeup_.awake();
    fruitless_polls_ = 0;
    return count;
}

int EventLoop::poll() noexcept {
    const int count = poller_.wait(0);
    fruitless_polls_ = count > 0 ? 0 : fruitless_polls_ + 1;
    work_since_poll_ = 0;
    return count;
}

void EventLoop::dispatch() {
    interrupted_ = false;
    wakeup_.collect(ready_);
    WorkQueue batch(std::move(ready_));
    WorkQueue due;
    if (!timers_.empty()) {
        timers_.collect_due(now_is_current_ ? now_ : monotonic_now(), due);
    }
    run_batch(batch);
    if (!interrupted_) {
        poller_.dispatch();
    }
    if (!interrupted_) {
        run_batch(due);
    }
    ready_.prepend(due);
    ready_.prepend(batch);
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
    }
    block(limit);
    dispatch();
}

} // namespace penstock::io
