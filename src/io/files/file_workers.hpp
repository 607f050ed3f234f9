#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <penstock/io/files/file_operation.hpp>

#include "io/files/completion_event.hpp"
#include "io/files/file_call.hpp"
#include "io/files/operation_list.hpp"

namespace penstock::io {

/// A bounded pool of threads that performs the file operations of one engine: all of them for the
/// engine of worker threads, and those without an opcode for the ring's.
///
/// Rejected: the coroutine library's `WorkerPool`. It belongs to the process, and its jobs, such as
/// name resolution, have no time limit and cannot be interrupted. Here one loop's thread submits in
/// batches, takes completions without a lock, and cancels inside a system call; the number of
/// threads grows while operations wait for other processes.
///
/// Only the loop's thread calls it. In a forked child the threads do not exist and the locks are in
/// an unknown state, so there it may only be leaked.
class FileWorkers {
public:
    /// `event` is signalled for each batch of completions. It must outlive this object.
    FileWorkers(unsigned max_threads, std::uint32_t max_transfer, CompletionEvent& event) noexcept;

    /// Joins the threads. No operation may be left.
    ~FileWorkers();
    FileWorkers(const FileWorkers&) = delete;
    FileWorkers& operator=(const FileWorkers&) = delete;

    /// Adds an operation, which starts with the next `flush`.
    void add(FileOperation& operation) noexcept;

    /// Passes the added operations to the threads. Repeats interrupts that had no effect yet.
    void flush() noexcept;

    /// Cancels an operation that was added. One that has not started completes at once, one that
    /// waits for a descriptor is woken, and one in a blocking system call is interrupted.
    void cancel(FileOperation& operation) noexcept;

    /// Cancels all operations that were added and are not complete.
    void cancel_all() noexcept;

    /// Takes the next completed operation, whose result is in `engine.result`. Null if there is
    /// none.
    [[nodiscard]] FileOperation* pop_completed() noexcept;

    [[nodiscard]] bool has_completed() const noexcept {
        return !delivering_.empty() || !completed_.empty();
    }

    /// Whether an interrupt may have come too early to take effect: `flush` must then be called
    /// again soon.
    [[nodiscard]] bool interrupts() const noexcept { return interrupts_; }

private:
    class Worker;

    void work(Worker& worker) noexcept;
    void wake_another() noexcept;
    bool start_thread() noexcept;
    void fail_queued(int error) noexcept;
    bool push_completed(FileOperation& operation) noexcept;
    void complete_here(FileOperation& operation, std::int64_t result) noexcept;
    void cancel_running(FileOperation& operation) noexcept;
    void wake_cancelled(const Worker& worker) noexcept;
    void wake_all_cancelled() noexcept;
    void begin_blocking() noexcept;

    const unsigned max_threads_;
    const std::uint32_t max_transfer_;
    CompletionEvent& event_;

    // Of the loop's thread.
    OperationList added_;
    OperationList delivering_;
    bool interrupts_ = false;

    OperationPosts completed_;

    std::mutex mutex_;
    std::condition_variable wake_;
    OperationList queue_;
    std::vector<std::unique_ptr<Worker>> workers_;
    unsigned idle_ = 0;
    unsigned blocked_ = 0; ///< threads that wait for another process; each allows one more thread
    bool waking_ = false;  ///< a thread was woken or started and has not taken an operation yet
    bool stopping_ = false;
};

} // namespace penstock::io
