#pragma once

#include <cstdint>

#include <penstock/io/file_engine.hpp>
#include <penstock/io/poller.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/io/wakeup.hpp>
#include <penstock/io/work.hpp>

namespace penstock::io {

/// One iteration's parts, for whoever must do something of its own between them (release an
/// interpreter lock around `block`, say). `run_once` is the plain composition of them.
///
/// An iteration runs, in this order: the work that was ready when it began to wait, the handlers of
/// ready descriptors, the timers that were due when the wait ended. Work scheduled meanwhile runs in
/// the next iteration, so nobody starves anybody. It is asyncio's order.
///
/// Not thread safe but for `post` and `wakeup().notify`.
class EventLoop {
public:
    /// Throws `std::system_error` when the kernel refuses a descriptor.
    EventLoop() : wakeup_(poller_) {}

    /// Runs `work` in the next iteration. It must outlive that.
    void schedule(Work& work) noexcept { ready_.push_back(work); }

    /// The same from any other thread.
    void post(Work& work) noexcept { wakeup_.post(work); }

    /// Submits started file operations, takes in posted work, and returns how long `block` may wait:
    /// 0 when work is ready, negative for ever, else nanoseconds.
    [[nodiscard]] std::int64_t prepare();

    /// Waits for events. Touches nothing but the poller and the wake-up; returns what
    /// `Poller::wait` does.
    int block(std::int64_t timeout_ns) noexcept;

    /// Runs what the wait brought, and the work that was ready before it.
    void dispatch();

    /// Stops the running `dispatch` after the current callback. What it had not run yet stays ready.
    void interrupt() noexcept {
        interrupted_ = true;
        poller_.interrupt();
    }

    /// `prepare`, `block`, `dispatch`, waiting at most `limit_ns` nanoseconds (negative: no limit).
    void run_once(std::int64_t limit_ns = -1);

    [[nodiscard]] bool has_ready_work() const noexcept { return !ready_.empty(); }

    [[nodiscard]] Poller& poller() noexcept { return poller_; }
    [[nodiscard]] TimerQueue& timers() noexcept { return timers_; }
    [[nodiscard]] Wakeup& wakeup() noexcept { return wakeup_; }
    [[nodiscard]] WorkQueue& ready() noexcept { return ready_; }

    /// The engine that `prepare` flushes; null for none. Not owned.
    void attach(FileEngine* engine) noexcept { file_engine_ = engine; }

private:
    void run_batch(WorkQueue& batch);

    Poller poller_;
    TimerQueue timers_;
    Wakeup wakeup_;
    WorkQueue ready_;
    FileEngine* file_engine_ = nullptr;
    bool interrupted_ = false;
};

} // namespace penstock::io
