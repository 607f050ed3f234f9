#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include <penstock/detail/intrusive_list.hpp>
#include <penstock/io/fork_mark.hpp>

namespace penstock::detail {

class WorkerPool;

/// Something to be done on a worker thread; lives where its waiter lives.
struct WorkerJob : ListHook {
    using Run = void (*)(WorkerJob&);

    explicit WorkerJob(Run function) noexcept : run(function) {}

    /// Must not throw. The job may be destroyed as soon as it has told its end.
    Run run;
    WorkerPool* pool = nullptr; ///< which has it
    bool queued = false;
};

/// The process's threads for calls that block. Threads are started when there are jobs and nobody is
/// idle, up to a limit, and stay. They take no signals.
///
/// Threads do not outlive a fork: a child gets a pool of its own when it first asks for one. Its parent's,
/// whose lock may be held for ever there, it leaves alone.
class WorkerPool {
public:
    static constexpr std::size_t most_threads = 32;

    /// The one pool of the process. Throws `std::bad_alloc`, and `std::system_error` when there is no memory
    /// for a page.
    [[nodiscard]] static WorkerPool& instance();

    WorkerPool() = default;
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// Jobs run in the order in which they came, as threads are free. Throws `std::system_error` when
    /// there is no thread and none can be started; the job is not queued then.
    void submit(WorkerJob& job);

    /// Takes a job back from the pool that has it; false when it has begun already, or in a forked child,
    /// where it never will.
    [[nodiscard]] static bool withdraw(WorkerJob& job) noexcept;

private:
    class OfProcess;

    void work();
    void start_thread();

    io::ForkMark fork_mark_;
    WorkerPool* parents_ = nullptr; ///< in a forked child; never freed
    std::mutex lock_;
    std::condition_variable ready_;
    IntrusiveList<WorkerJob> jobs_;
    std::vector<std::thread> threads_;
    std::size_t idle_ = 0;
    std::size_t waiting_jobs_ = 0;
    bool ending_ = false;
};

} // namespace penstock::detail
