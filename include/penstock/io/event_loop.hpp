#pragma once

#include <cstdint>
#include <system_error>

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
    ///
    /// With a time-out of 0 it may ask the kernel only now and then: a loop that is busy with work of
    /// its own, and has found no descriptor ready for `eager_polls` iterations, looks again after
    /// every `work_between_polls` pieces of work. A system call for each costs more than most
    /// callbacks do.
    int block(std::int64_t timeout_ns) noexcept;

    /// Timers go by `clock(context)`, in nanoseconds, instead of `monotonic_now`; null for that again. It
    /// may interrupt the loop, also during `prepare`.
    using Clock = MonotonicTime (*)(void* context);
    void use_clock(Clock clock, void* context) noexcept {
        clock_ = clock;
        clock_context_ = context;
    }

    /// Makes the next iterations poll in any case; for the beginning of a run.
    void poll_eagerly() noexcept { fruitless_polls_ = 0; }

    /// Runs what the wait brought, and the work that was ready before it.
    void dispatch();

    /// Stops the running `dispatch` after the current callback. What it had not run yet stays ready,
    /// or due.
    void interrupt() noexcept {
        interrupted_ = true;
        poller_.interrupt();
        if (completions_.engine != nullptr) {
            completions_.engine->interrupt();
        }
    }

    /// `prepare`, `block`, `dispatch`, waiting at most `limit_ns` nanoseconds (negative: no limit).
    void run_once(std::int64_t limit_ns = -1);

    [[nodiscard]] bool has_ready_work() const noexcept { return !ready_.empty(); }

    [[nodiscard]] Poller& poller() noexcept { return poller_; }
    [[nodiscard]] TimerQueue& timers() noexcept { return timers_; }
    [[nodiscard]] Wakeup& wakeup() noexcept { return wakeup_; }
    [[nodiscard]] WorkQueue& ready() noexcept { return ready_; }

    /// From here on `prepare` flushes `engine`, and its completions are delivered with what the
    /// poller reports. One at a time: EBUSY while there is another; else what `Poller::add` says. Not
    /// owned: it is taken out by `detach_files` before it ends.
    [[nodiscard]] std::error_code attach(FileEngine& engine);

    void detach_files() noexcept;

    /// The attached engine, or null.
    [[nodiscard]] FileEngine* files() const noexcept { return completions_.engine; }

private:
    static constexpr unsigned eager_polls = 16;
    static constexpr unsigned work_between_polls = 32;

    struct CompletionWatch : Watch {
        explicit CompletionWatch(EventLoop& owner) noexcept : Watch(&on_completions), loop(owner) {}
        EventLoop& loop;
        FileEngine* engine = nullptr;
        bool waiting = false; ///< `flush` has said so: the poller need not
    };

    static void on_completions(Watch& watch, std::uint32_t events);
    void deliver_completions();
    void run_batch(WorkQueue& batch);
    void run_due_timers(MonotonicTime now, std::uint64_t added_before);
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
    unsigned fruitless_polls_ = 0;
    unsigned work_since_poll_ = 0;
    bool now_is_current_ = false;
    bool interrupted_ = false;
};

} // namespace penstock::io
