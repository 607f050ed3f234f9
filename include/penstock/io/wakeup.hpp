#pragma once

#include <atomic>

#include <penstock/io/poller.hpp>
#include <penstock/io/work.hpp>

namespace penstock::io {

/// The only door through which other threads reach a loop: a lock-free stack of posted work and an
/// eventfd that is written once, however many posts there are before the loop looks.
///
/// The eventfd is the one descriptor that is registered edge-triggered: each write is an edge, so it
/// never has to be read, and a wake-up costs one system call in all.
class Wakeup {
public:
    /// Throws `std::system_error` when the kernel refuses an eventfd.
    explicit Wakeup(Poller& poller);
    ~Wakeup();
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;

    /// Hands work to the loop's thread and wakes it. Any thread; wait-free but for the system call.
    void post(Work& work) noexcept;

    /// Wakes the loop without work, or keeps it from blocking next time. What was written before is
    /// visible to the loop then. Any thread, and async-signal-safe.
    void notify() noexcept;

    /// Loop's thread: moves all posted work, oldest first, behind the work in `queue`.
    void collect(WorkQueue& queue) noexcept;

    /// Loop's thread: announces that it is about to block. False when work was posted meanwhile: the
    /// loop must not block then.
    [[nodiscard]] bool prepare_to_block() noexcept;

    /// Loop's thread: back from blocking, about to run what it was woken for.
    void awake() noexcept {
        blocked_.store(false, std::memory_order_relaxed);
        if (notified_.load(std::memory_order_relaxed)) {
            notified_.exchange(false, std::memory_order_acquire);
        }
    }

private:
    void signal() noexcept;

    Poller& poller_;
    Watch watch_;
    std::atomic<Work*> posted_{nullptr};
    std::atomic<bool> blocked_{false};
    std::atomic<bool> notified_{false};
    int fd_;
};

} // namespace penstock::io
