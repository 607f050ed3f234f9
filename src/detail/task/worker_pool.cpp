#include <penstock/detail/task/worker_pool.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <pthread.h>

#include <penstock/io/blocked_signals.hpp>
#include <penstock/io/never_destroyed.hpp>

namespace penstock::detail {

/// Finds the pool of this process. It is never destroyed itself: a destructor that runs later at
/// the program's end gets another pool, whose threads then end with the process.
class WorkerPool::ProcessPool {
public:
    ProcessPool() = default;
    ProcessPool(const ProcessPool&) = delete;
    ProcessPool& operator=(const ProcessPool&) = delete;

    /// Waits for the end of the pool's jobs, at the end of the program. In a child without a pool
    /// of its own there is nothing to destroy.
    void end() noexcept {
        WorkerPool* pool = pool_.load(std::memory_order_acquire);
        if (pool != nullptr && !pool->fork_mark_.in_child()) {
            pool_.store(pool->parents_); // keeps it reachable, so that it does not count as a leak
            delete pool;
        }
    }

    [[nodiscard]] WorkerPool& get() {
        WorkerPool* pool = pool_.load(std::memory_order_acquire);
        if (pool != nullptr && !pool->fork_mark_.in_child()) {
            return *pool;
        }
        auto fresh = std::make_unique<WorkerPool>();
        fresh->parents_ = pool;
        if (pool_.compare_exchange_strong(pool, fresh.get(), std::memory_order_acq_rel)) {
            return *fresh.release();
        }
        return *pool; // another thread was faster
    }

private:
    std::atomic<WorkerPool*> pool_{nullptr};
};

WorkerPool& WorkerPool::instance() {
    static io::NeverDestroyed<ProcessPool> pool;
    struct AtExit {
        ~AtExit() { (*pool).end(); }
    };
    static const AtExit at_exit{};
    return (*pool).get();
}

WorkerPool::~WorkerPool() {
    {
        const std::lock_guard guard(lock_);
        ending_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

void WorkerPool::Deleter::operator()(WorkerPool* pool) const noexcept {
    if (!pool->fork_mark_.in_child()) {
        delete pool;
        return;
    }
    static std::atomic<WorkerPool*> parents; // reachable, so that they do not count as leaks
    pool->parents_ = parents.exchange(pool);
}

void WorkerPool::start_thread() {
    const io::BlockedSignals blocked;
    threads_.reserve(threads_.size() + 1);
    std::thread& thread = threads_.emplace_back([this] { work(); });
    if (!name_.empty()) {
        // The kernel takes 15 bytes and the terminating zero.
        (void)::pthread_setname_np(thread.native_handle(), name_.substr(0, 15).c_str());
    }
}

void WorkerPool::submit(WorkerJob& job) {
    if (fork_mark_.in_child()) { // only a pool other than the process's
        throw std::logic_error("a forked child has no threads of its parent's pool");
    }
    {
        const std::lock_guard guard(lock_);
        if (waiting_jobs_ >= idle_ && threads_.size() < limit_) {
            try {
                start_thread();
            } catch (const std::system_error&) {
                if (threads_.empty()) {
                    throw;
                }
            }
        }
        jobs_.push_back(job);
        job.pool = this;
        job.queued = true;
        ++waiting_jobs_;
    }
    ready_.notify_one();
}

bool WorkerPool::withdraw(WorkerJob& job) noexcept {
    WorkerPool& pool = *job.pool;
    if (pool.fork_mark_.in_child()) {
        return false;
    }
    const std::lock_guard guard(pool.lock_);
    if (!job.queued) {
        return false;
    }
    pool.jobs_.remove(job);
    job.queued = false;
    --pool.waiting_jobs_;
    return true;
}

void WorkerPool::work() {
    std::unique_lock guard(lock_);
    for (;;) {
        ++idle_;
        ready_.wait(guard, [this] { return ending_ || !jobs_.empty(); });
        --idle_;
        WorkerJob* job = jobs_.pop_front();
        if (job == nullptr) {
            return;
        }
        job->queued = false;
        --waiting_jobs_;
        guard.unlock();
        job->run(*job);
        guard.lock();
    }
}

} // namespace penstock::detail
