#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/io/fork_mark.hpp>
#include <penstock/io/intrusive_list.hpp>

namespace penstock::detail {

class WorkerPool;

/// A call for a worker thread. It lives in its waiter.
struct WorkerJob : io::ListHook<WorkerJob> {
    using Run = void (*)(WorkerJob&);

    explicit WorkerJob(Run function) noexcept : run(function) {}

    /// Must not throw. The job may be destroyed as soon as it has reported its completion.
    Run run;
    WorkerPool* pool = nullptr; ///< the pool that has the job
    bool queued = false;
};

/// Worker threads for blocking calls. A thread is started if there are jobs and no thread is idle,
/// up to a limit. Threads stay until the pool is destroyed. They block all signals.
///
/// Threads do not survive a fork, so a child creates its own pool of the process on first use. It
/// does not touch its parent's, whose mutex may be locked forever.
class WorkerPool {
public:
    /// The limit of the process's pool.
    static constexpr std::size_t most_threads = 32;

    /// The pool of the process. Throws `std::bad_alloc`, and `std::system_error` if there is no
    /// memory for a page.
    [[nodiscard]] static WorkerPool& instance();

    WorkerPool() = default;
    /// Another pool, whose threads carry a name.
    WorkerPool(std::size_t limit, std::string name) : limit_(limit), name_(std::move(name)) {}
    /// Waits for the end of all jobs.
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// Deletes a pool. In a forked child it leaves the parent's pool alone: destroying a condition
    /// variable waits for the threads that wait on it, and the child has none of them.
    struct Deleter {
        void operator()(WorkerPool* pool) const noexcept;
    };

    /// Queues a job. Jobs start in order. Throws `std::system_error` if there is no thread and none
    /// can be started, and `std::logic_error` in a forked child. The job is not queued then.
    void submit(WorkerJob& job);

    /// Removes a queued job. Returns false if the job has started, or in a forked child, where it
    /// never will.
    [[nodiscard]] static bool withdraw(WorkerJob& job) noexcept;

    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

private:
    class ProcessPool;

    void work();
    void start_thread();

    const std::size_t limit_ = most_threads;
    const std::string name_;
    io::ForkMark fork_mark_;
    WorkerPool* parents_ = nullptr; ///< in a forked child: another pool of the parent, never freed
    std::mutex lock_;
    std::condition_variable ready_;
    io::IntrusiveList<WorkerJob> jobs_;
    std::vector<std::thread> threads_;
    std::size_t idle_ = 0;
    std::size_t waiting_jobs_ = 0;
    bool ending_ = false;
};

} // namespace penstock::detail
