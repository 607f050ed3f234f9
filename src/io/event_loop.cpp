#include <penstock/io/event_loop.hpp>

#include <algorithm>

namespace penstock::io {

std::int64_t EventLoop::prepare() {
    if (file_engine_ != nullptr) {
        file_engine_->flush();
    }
    wakeup_.collect(ready_);
    if (!ready_.empty()) {
        return 0;
    }
    if (timers_.empty()) {
        return -1;
    }
    return std::max<std::int64_t>(0, timers_.next_deadline() - monotonic_now());
}

int EventLoop::block(std::int64_t timeout_ns) noexcept {
    if (timeout_ns == 0 || !wakeup_.prepare_to_block()) {
        return poller_.wait(0);
    }
    const int count = poller_.wait(timeout_ns);
    wakeup_.awake();
    return count;
}

void EventLoop::dispatch() {
    interrupted_ = false;
    wakeup_.collect(ready_);
    WorkQueue batch(std::move(ready_));
    WorkQueue due;
    if (!timers_.empty()) {
        timers_.collect_due(monotonic_now(), due);
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
