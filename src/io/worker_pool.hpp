#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <penstock/io/file_operation.hpp>

#include "io/completion_event.hpp"
#include "io/file_call.hpp"
#include "io/operation_list.hpp"

namespace penstock::io {

/// A bounded pool of threads that performs file operations; what the worker engine is, and where the
/// ring engine sends what the kernel has no opcode for.
///
/// The members are for the loop's thread. In a forked child, whose threads are gone and whose locks are
/// in whatever state they were, it may only be leaked.
class WorkerPool {
public:
    /// `event` is signalled for each batch of completions, and must outlive the pool.
    WorkerPool(unsigned max_threads, std::uint32_t max_transfer, CompletionEvent& event) noexcept;

    /// Joins the threads; nothing may be in the pool.
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// Takes an operation in; it waits for `flush`.
    void add(FileOperation& operation) noexcept;

    /// Hands the threads what was added. Interrupts those again that are to be.
    void flush() noexcept;

    /// For an operation that is in the pool. One that has not begun is completed at once, one that
    /// waits for a descriptor is woken, and one that opens a file is interrupted.
    void cancel(FileOperation& operation) noexcept;

    /// Cancels everything that is in the pool.
    void cancel_all() noexcept;

    /// Takes out the next completed operation, with its `engine.result`, or returns null.
    [[nodiscard]] FileOperation* pop_completed() noexcept;

    [[nodiscard]] bool has_completed() const noexcept {
        return !delivering_.empty() || completed_.load(std::memory_order_relaxed) != nullptr;
    }

    /// A thread may have been interrupted too early to notice: `flush` must be called again soon.
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
    void wake_cancelled_again() noexcept;
    void begin_blocking() noexcept;

    const unsigned max_threads_;
    const std::uint32_t max_transfer_;
    CompletionEvent& event_;

    // The loop's thread's own.
    OperationList added_;
    OperationList delivering_;
    bool interrupts_ = false;

    std::atomic<FileOperation*> completed_{nullptr}; ///< newest first

    std::mutex mutex_;
    std::condition_variable wake_;
    OperationList queue_;
    std::vector<std::unique_ptr<Worker>> workers_;
    unsigned idle_ = 0;
    unsigned blocked_ =
        0;                ///< threads that wait for another process: for each there may be one more
    bool waking_ = false; ///< a thread has been woken or started and has not taken anything yet
    bool stopping_ = false;
};

} // namespace penstock::io
