#pragma once

#include <atomic>

#include <penstock/io/poller.hpp>
#include <penstock/io/post_queue.hpp>
#include <penstock/io/work.hpp>

namespace penstock::io {

/// How other threads reach a loop: a lock-free queue of posted work, and an eventfd that is written
/// once, no matter how many posts there are before the loop wakes up.
///
/// The eventfd is registered edge-triggered: each write is an edge, so it never has to be read, and
/// a wake-up costs one system call.
class Wakeup {
public:
    /// Throws `std::system_error` when the kernel refuses an eventfd.
    explicit Wakeup(Poller& poller);
    ~Wakeup();
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;

    /// Gives work to the loop's thread and wakes the loop. Any thread. Lock-free, except for the
    /// system call.
    void post(Work& work) noexcept;

    /// Wakes the loop without work, or makes its next wait return at once. What was written before
    /// is then visible to the loop. Any thread, and async-signal-safe.
    void notify() noexcept;

    /// Loop's thread: appends all posted work to `queue`, oldest first.
    void collect(WorkQueue& queue) noexcept;

    /// Loop's thread: announces that it is about to block. False if work was posted meanwhile: the
    /// loop must then not block.
    [[nodiscard]] bool prepare_to_block() noexcept;

    /// Loop's thread: announces that it no longer blocks.
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
    PostQueue<Work, &Work::next> posted_;
    std::atomic<bool> blocked_{false};
    std::atomic<bool> notified_{false};
    int fd_;
};

} // namespace penstock::io
