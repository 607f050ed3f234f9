#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include <penstock/detail/intrusive_list.hpp>

namespace penstock::detail {

/// Something to be done on a worker thread; lives where its waiter lives.
struct WorkerJob : ListHook {
    using Run = void (*)(WorkerJob&);

    explicit WorkerJob(Run function) noexcept : run(function) {}

    /// Must not throw. The job may be destroyed as soon as it has told its end.
    Run run;
    bool queued = false;
};

/// The process's threads for calls that block. Threads are started when there are jobs and nobody is
/// idle, up to a limit, and stay. They take no signals.
class WorkerPool {
public:
    static constexpr std::size_t most_threads = 32;

    /// The one pool of the process.
    [[nodiscard]] static WorkerPool& instance();

    WorkerPool() = default;
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// Jobs run in the order in which they came, as threads are free. Throws `std::system_error` when
    /// there is no thread and none can be started; the job is not queued then.
    void submit(WorkerJob& job);

    /// Takes a job back; false when it has begun already.
    [[nodiscard]] bool withdraw(WorkerJob& job) noexcept;

private:
    void work();
    void start_thread();

    std::mutex lock_;
    std::condition_variable ready_;
    IntrusiveList<WorkerJob> jobs_;
    std::vector<std::thread> threads_;
    std::size_t idle_ = 0;
    std::size_t waiting_jobs_ = 0;
    bool ending_ = false;
};

} // namespace penstock::detail
