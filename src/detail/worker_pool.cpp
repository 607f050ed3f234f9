#include <penstock/detail/worker_pool.hpp>

#include <atomic>
#include <csignal>
#include <memory>
#include <system_error>

#include <pthread.h>

namespace penstock::detail {

namespace {

/// Signals are for the threads that know of them; a new thread inherits this one's mask.
class AllSignalsBlocked {
public:
    AllSignalsBlocked() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    AllSignalsBlocked(const AllSignalsBlocked&) = delete;
    AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

} // namespace

/// Which pool is this process's.
class WorkerPool::OfProcess {
public:
    OfProcess() = default;
    OfProcess(const OfProcess&) = delete;
    OfProcess& operator=(const OfProcess&) = delete;
    /// In a child that has made no pool of its own there is nothing to end: no thread of its parent's.
    ~OfProcess() {
        WorkerPool* pool = pool_.load(std::memory_order_acquire);
        if (pool != nullptr && !pool->fork_mark_.in_child()) {
            pool_.store(pool->parents_); // known to the end, or it would be taken for a leak
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
    static OfProcess pool;
    return pool.get();
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

void WorkerPool::start_thread() {
    const AllSignalsBlocked blocked;
    threads_.reserve(threads_.size() + 1);
    threads_.emplace_back([this] { work(); });
}

void WorkerPool::submit(WorkerJob& job) {
    {
        const std::lock_guard guard(lock_);
        if (waiting_jobs_ >= idle_ && threads_.size() < most_threads) {
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
