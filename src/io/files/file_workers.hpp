#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <penstock/io/files/file_engine_options.hpp>
#include <penstock/io/files/file_operation.hpp>

#include "io/files/completion_event.hpp"
#include "io/files/descriptor_waits.hpp"
#include "io/files/file_call.hpp"
#include "io/files/operation_list.hpp"

namespace penstock::io {

/// The threads that perform the file operations of one engine: all of them for the engine of worker
/// threads, and those without an opcode for the ring's. Who waits where:
///
/// - *Ordinary workers*, a bounded number. They wait for disks, file servers and the functions of
///   `FileOperation::to_call`, never for another process: pipes cannot keep them from files.
/// - One *watcher*. Transfers whose descriptors are not ready wait in its epoll, in any number.
///   When one is ready, the watcher itself transfers, without blocking. It also repeats the
///   interrupts of cancellations: one that arrives before its thread is in the system call has no
///   effect, and nothing else may wake the loop.
/// - *Patient threads*, one for each operation that waits for another process inside a system call:
///   the open of a FIFO, a transfer to a terminal or a device that was ready and is not any more, a
///   splice. Their number is not bounded, because any of them may be the one that the others wait
///   for. If the kernel refuses another thread, such operations wait for one that is free.
///
/// A thread without work ends after `FileEngineOptions::idle_milliseconds`.
///
/// Rejected: the coroutine library's `WorkerPool`. It belongs to the process, and its jobs, such as
/// name resolution, have no time limit and cannot be interrupted. Here one loop's thread submits in
/// batches, takes completions without a lock, and cancels inside a system call. Also rejected:
/// opening FIFOs with O_NONBLOCK and repeating that. A waiting writer would be invisible to a
/// reader that waits in open(2) itself, and nothing tells when to repeat.
///
/// Only the loop's thread calls it. In a forked child the threads do not exist and the locks are in
/// an unknown state, so there it may only be leaked.
class FileWorkers {
public:
    /// `event` is signalled for each batch of completions. It must outlive this object.
    FileWorkers(const FileEngineOptions& options, CompletionEvent& event) noexcept;

    /// Joins the threads. No operation may be left.
    ~FileWorkers();
    FileWorkers(const FileWorkers&) = delete;
    FileWorkers& operator=(const FileWorkers&) = delete;

    /// Adds an operation, which starts with the next `flush`.
    void add(FileOperation& operation) noexcept;

    /// Adds a transfer of which `is_stream_transfer` is true: it first waits for its descriptor.
    void add_transfer(FileOperation& operation) noexcept;

    /// Passes the added operations to the threads. Repeats interrupts that had no effect yet, if no
    /// watcher could be started.
    void flush() noexcept;

    /// Cancels an operation that was added. One that has not started or waits for a descriptor
    /// completes at once, and one in a blocking system call is interrupted.
    void cancel(FileOperation& operation) noexcept;

    /// Cancels an operation only if no thread has taken it yet; it then completes at once. False if
    /// one has.
    bool withdraw(FileOperation& operation) noexcept;

    /// Cancels all operations that were added and are not complete.
    void cancel_all() noexcept;

    /// Takes the next completed operation, whose result is in `engine.result`. Null if there is
    /// none.
    [[nodiscard]] FileOperation* pop_completed() noexcept;

    [[nodiscard]] bool has_completed() const noexcept {
        return !delivering_.empty() || !completed_.empty();
    }

    /// Whether an interrupt may have come too early to take effect, and no watcher repeats it:
    /// `flush` must then be called again soon.
    [[nodiscard]] bool interrupts() const noexcept { return interrupts_ && !watching_; }

private:
    class Worker;

    /// Threads that take operations from one queue.
    struct Lane {
        OperationList queue;
        std::condition_variable wake;
        unsigned limit;
        unsigned threads = 0;
        unsigned idle = 0;
        bool waking = false; ///< a thread was woken or started and has not taken an operation yet
    };

    void work(Worker& worker, Lane& lane) noexcept;
    void watch(Worker& worker) noexcept;
    void run(FileOperation& operation, Worker& worker, std::unique_lock<std::mutex>& lock) noexcept;
    [[nodiscard]] bool settle(FileOperation& operation, std::int64_t result,
                              const Worker& worker) noexcept;
    void retire(const Worker& worker) noexcept;
    void enqueue(FileOperation& operation) noexcept;
    void wake_another(Lane& lane) noexcept;
    bool start_thread(Lane* lane) noexcept;
    void fail_queued(Lane& lane) noexcept;
    [[nodiscard]] int make_waits() noexcept;
    [[nodiscard]] int begin_wait(FileOperation& operation) noexcept;
    void start_wait(FileOperation& operation) noexcept;
    [[nodiscard]] bool push_completed(FileOperation& operation) noexcept;
    void complete_here(FileOperation& operation, std::int64_t result) noexcept;
    [[nodiscard]] bool remove_queued(FileOperation& operation) noexcept;
    void cancel_running(FileOperation& operation) noexcept;
    void wake_cancelled(const Worker& worker) noexcept;
    void wake_all_cancelled() noexcept;
    void repeat_interrupts() noexcept;

    const std::chrono::milliseconds idle_time_;
    const std::uint32_t max_transfer_;
    CompletionEvent& event_;

    // Used by the loop's thread only.
    OperationList added_;
    OperationList added_transfers_;
    OperationList delivering_;

    OperationPosts completed_;

    // Written with the mutex held.
    std::atomic<bool> interrupts_ = false; ///< there may be more to repeat
    std::atomic<bool> watching_ = false;

    std::mutex mutex_; ///< guards what follows, and `engine` of the operations in its lists
    Lane ordinary_;
    Lane patient_;
    std::unique_ptr<DescriptorWaits> waits_; ///< made by the first wait, and never removed
    OperationList ready_;                    ///< taken from `waits_` by the watcher
    bool stopping_ = false;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::unique_ptr<Worker>> ended_; ///< to be joined by the loop's thread
};

} // namespace penstock::io
