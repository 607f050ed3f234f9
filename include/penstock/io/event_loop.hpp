#pragma once

#include <cstdint>
#include <system_error>

#include <penstock/io/files/file_engine.hpp>
#include <penstock/io/poller.hpp>
#include <penstock/io/time_slice.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/io/wakeup.hpp>
#include <penstock/io/work.hpp>

namespace penstock::io {

/// An event loop, whose iteration is split into `prepare`, `block` and `dispatch`, so that a caller
/// can act between them, for example release an interpreter lock around `block`. `run_once` calls
/// all three.
///
/// An iteration runs, in this order: the work that was ready when the wait began, the handlers of
/// ready descriptors, the timers that were due when the wait ended. Work that is scheduled
/// meanwhile runs in the next iteration, so no work starves other work. This is asyncio's order.
///
/// Not thread safe, except for `post` and `wakeup().notify`.
class EventLoop {
public:
    /// Throws `std::system_error` when the kernel refuses a descriptor.
    EventLoop() : wakeup_(poller_) {}

    /// Runs `work` in the next iteration. It must live until it has run.
    void schedule(Work& work) noexcept { ready_.push_back(work); }

    /// The same from any other thread.
    void post(Work& work) noexcept { wakeup_.post(work); }

    /// Submits the file operations that were started, collects posted work, and returns how long
    /// `block` may wait, in nanoseconds: 0 if work is ready, negative for no limit. It is also
    /// negative if the poller's timer descriptor will end the wait when a timer is due.
    [[nodiscard]] std::int64_t prepare();

    /// Waits for events, and returns what `Poller::wait` returns. Uses only the poller and the
    /// wake-up.
    ///
    /// With a time-out of 0 it does not always poll: the system call costs more than most callbacks
    /// do. If a descriptor was ready in one of the last `eager_polls` polls, it polls. Otherwise it
    /// polls if the last poll is `poll_interval` ns or `work_between_polls` pieces of work ago.
    ///
    /// So it keeps what a poll in every iteration gives, measured in time: **an event waits for the
    /// running callback, for the work that is ready by then, and for at most `poll_interval`
    /// besides.** In a loop whose callbacks are slow, every iteration polls.
    ///
    /// Rejected: to count work alone, which lets 32 callbacks of 20 ms pass. To poll once more
    /// after the ready work, as libuv does: a descriptor would then be served before work that was
    /// ready earlier, and whether it is would depend on the time.
    int block(std::int64_t timeout_ns) noexcept;

    /// Makes timers use `clock(context)`, in nanoseconds, instead of `monotonic_now`; null restores
    /// that. The clock may interrupt the loop, even during `prepare`.
    using Clock = MonotonicTime (*)(void* context);
    void use_clock(Clock clock, void* context) noexcept {
        clock_ = clock;
        clock_context_ = context;
    }

    /// Makes the next `eager_polls` iterations poll. For the beginning of a run.
    void poll_eagerly() noexcept { fruitless_polls_ = 0; }

    /// Runs the work that was ready before the wait, and what the wait has made ready.
    void dispatch();

    /// Stops the running `dispatch` after the current callback. What has not run stays ready, or
    /// due.
    void interrupt() noexcept {
        interrupted_ = true;
        poller_.interrupt();
        if (completions_.engine != nullptr) {
            completions_.engine->interrupt();
        }
    }

    /// Runs one iteration, and waits at most `limit_ns` nanoseconds (negative: no limit).
    void run_once(std::int64_t limit_ns = -1);

    [[nodiscard]] bool has_ready_work() const noexcept { return !ready_.empty(); }

    [[nodiscard]] Poller& poller() noexcept { return poller_; }
    [[nodiscard]] TimerQueue& timers() noexcept { return timers_; }
    [[nodiscard]] Wakeup& wakeup() noexcept { return wakeup_; }
    [[nodiscard]] WorkQueue& ready() noexcept { return ready_; }

    /// Makes `prepare` flush `engine`, and `dispatch` deliver its completions. The engine is not
    /// owned; call `detach_files` before it is destroyed. Errors: EBUSY if another engine is
    /// attached, and those of `Poller::add`.
    [[nodiscard]] std::error_code attach(FileEngine& engine);

    void detach_files() noexcept;

    /// The attached engine, or null.
    [[nodiscard]] FileEngine* files() const noexcept { return completions_.engine; }

private:
    static constexpr unsigned eager_polls = 16;
    static constexpr unsigned work_between_polls = 32;
    /// A poll of no event takes 0.2 to 0.4 us.
    static constexpr std::int64_t poll_interval = 20'000;

    struct CompletionWatch : Watch {
        explicit CompletionWatch(EventLoop& owner) noexcept : Watch(&on_completions), loop(owner) {}
        EventLoop& loop;
        FileEngine* engine = nullptr;
        bool waiting = false; ///< `flush` has reported completions
    };

    static void on_completions(Watch& watch, std::uint32_t events);
    void deliver_completions();
    void run_batch(WorkQueue& batch);
    void run_due_timers(MonotonicTime now, std::uint64_t added_before);
    [[nodiscard]] bool timers_may_be_due() const noexcept;
    int poll() noexcept;
    [[nodiscard]] MonotonicTime now() const {
        return clock_ == nullptr ? monotonic_now() : clock_(clock_context_);
    }

    Poller poller_;
    TimerQueue timers_;
    Wakeup wakeup_;
    WorkQueue ready_;
    CompletionWatch completions_{*this};
    Clock clock_ = nullptr;
    void* clock_context_ = nullptr;
    MonotonicTime now_ = 0;
    TimeSlice unpolled_{poll_interval};
    unsigned fruitless_polls_ = 0;
    unsigned work_since_poll_ = 0;
    bool now_is_current_ = false;   ///< `prepare` has found a timer due at `now_`
    bool now_is_monotonic_ = false; ///< `prepare` has asked the system's clock
    bool events_fetched_ = false;   ///< by this iteration's `block`, when it did not only poll
    bool interrupted_ = false;
};

} // namespace penstock::io
