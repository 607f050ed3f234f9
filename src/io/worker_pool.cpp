#include "io/worker_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <poll.h>
#include <pthread.h>

#include "io/thread_interrupt.hpp"

namespace penstock::io {

namespace {

using Kind = FileOperation::Kind;
using Place = FileOperation::EnginePart::Place;

/// So many threads may wait for other processes without others having fewer.
constexpr unsigned most_blocked = 256;

/// Whether an operation waits for another process from its beginning.
bool is_patient(const FileOperation& operation) noexcept {
    return operation.patient || operation.engine.patient;
}

/// Blocks all signals in this thread, and so in the threads that it starts meanwhile.
class BlockedSignals {
public:
    BlockedSignals() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

private:
    sigset_t before_{};
};

} // namespace

/// One thread and what it is doing. `current`, `waiting` and the operation's `cancelled` are guarded
/// by the pool's mutex.
class WorkerPool::Worker final : public CallContext {
public:
    explicit Worker(WorkerPool& pool) noexcept : pool_(pool) {}
    ~Worker() override {
        if (thread.joinable()) {
            thread.join();
        }
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    [[nodiscard]] bool cancelled() noexcept override {
        const std::lock_guard lock(pool_.mutex_);
        return current->engine.cancelled;
    }

    /// With the mutex held: whether it is in, or about to make, a call that only a signal ends.
    [[nodiscard]] bool may_block() const noexcept {
        return current != nullptr && !waiting &&
               (current->kind == Kind::open || current->kind == Kind::read_file ||
                current->kind == Kind::read || current->kind == Kind::readv ||
                current->kind == Kind::write || current->kind == Kind::writev);
    }

    int wait_until_ready(int fd, short events) noexcept override {
        if (const int error = begin_waiting()) {
            return error;
        }
        pollfd watched[] = {{.fd = fd, .events = events, .revents = 0},
                            {.fd = interrupt->descriptor(), .events = POLLIN, .revents = 0}};
        int ready = 0;
        do {
            ready = poll(watched, 2, -1);
        } while (ready < 0 && errno == EINTR);
        const int error = ready < 0 ? -errno : 0;
        return end_waiting() ? -ECANCELED : error;
    }

    std::thread thread;
    pthread_t handle{};
    FileOperation* current = nullptr;
    bool waiting = false;
    std::unique_ptr<CompletionEvent> interrupt; ///< made by the first wait

private:
    int begin_waiting() noexcept {
        if (interrupt == nullptr) {
            try {
                auto event = std::make_unique<CompletionEvent>();
                const std::lock_guard lock(pool_.mutex_);
                interrupt = std::move(event);
            } catch (const std::system_error& error) {
                return -error.code().value();
            } catch (const std::bad_alloc&) {
                return -ENOMEM;
            }
        }
        const std::lock_guard lock(pool_.mutex_);
        waiting = !current->engine.cancelled;
        if (waiting && !is_patient(*current)) {
            pool_.begin_blocking();
        }
        return waiting ? 0 : -ECANCELED;
    }

    bool end_waiting() noexcept {
        const std::lock_guard lock(pool_.mutex_);
        waiting = false;
        if (!is_patient(*current)) {
            --pool_.blocked_;
        }
        if (current->engine.cancelled) {
            interrupt->clear();
        }
        return current->engine.cancelled;
    }

    WorkerPool& pool_;
};

WorkerPool::WorkerPool(unsigned max_threads, std::uint32_t max_transfer,
                       CompletionEvent& event) noexcept
    : max_threads_(max_threads), max_transfer_(max_transfer), event_(event) {}

WorkerPool::~WorkerPool() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    workers_.clear();
}

void WorkerPool::add(FileOperation& operation) noexcept {
    operation.engine.place = Place::started;
    added_.push_back(operation);
}

void WorkerPool::flush() noexcept {
    if (interrupts_) {
        wake_cancelled_again();
    }
    if (added_.empty()) {
        return;
    }
    for (FileOperation* it = added_.front(); it != nullptr; it = it->engine.next) {
        it->engine.place = Place::queued;
    }
    const std::lock_guard lock(mutex_);
    queue_.append(added_);
    wake_another();
}

// With the mutex held. One thread at a time is on its way: it wakes the next one itself when it finds
// more work than its own, so that a burst of short operations does not wake the whole pool.
void WorkerPool::wake_another() noexcept {
    if (waking_ || queue_.empty()) {
        return;
    }
    if (idle_ != 0) {
        waking_ = true;
        wake_.notify_one();
    } else if (workers_.size() < max_threads_ + std::min(blocked_, most_blocked)) {
        waking_ = start_thread();
        if (workers_.empty()) {
            fail_queued(EAGAIN);
        }
    }
}

// With the mutex held.
void WorkerPool::begin_blocking() noexcept {
    ++blocked_;
    wake_another();
}

bool WorkerPool::start_thread() noexcept {
    try {
        const BlockedSignals blocked;
        auto worker = std::make_unique<Worker>(*this);
        worker->max_transfer = max_transfer_;
        workers_.reserve(workers_.size() + 1);
        worker->thread = std::thread([this, &self = *worker]() noexcept { work(self); });
        worker->handle = worker->thread.native_handle();
        pthread_setname_np(worker->handle, "penstock-file");
        workers_.push_back(std::move(worker));
        return true;
    } catch (const std::exception&) { // std::bad_alloc, std::system_error
        return false;
    }
}

void WorkerPool::fail_queued(int error) noexcept {
    while (FileOperation* operation = queue_.pop_front()) {
        operation->engine.result = -error;
        if (push_completed(*operation)) {
            event_.signal();
        }
    }
}

void WorkerPool::work(Worker& worker) noexcept {
    allow_interrupts();
    std::unique_lock lock(mutex_);
    bool woken = true;
    while (true) {
        if (woken) {
            waking_ = false;
            woken = false;
        }
        FileOperation* operation = queue_.pop_front();
        if (operation == nullptr) {
            if (stopping_) {
                return;
            }
            ++idle_;
            wake_.wait(lock);
            --idle_;
            woken = true;
            continue;
        }
        operation->engine.place = Place::running;
        worker.current = operation;
        const bool patient = is_patient(*operation);
        if (patient) {
            begin_blocking();
        } else {
            wake_another();
        }
        lock.unlock();
        const std::int64_t result = perform(*operation, worker);
        lock.lock();
        worker.current = nullptr;
        if (patient) {
            --blocked_;
        }
        operation->engine.result = result;
        if (push_completed(*operation)) {
            lock.unlock();
            event_.signal();
            lock.lock();
        }
    }
}

// Any thread; the operation belongs to the loop's thread from here on. True when the loop must be told.
bool WorkerPool::push_completed(FileOperation& operation) noexcept {
    FileOperation* head = completed_.load(std::memory_order_relaxed);
    do {
        operation.engine.next = head;
    } while (!completed_.compare_exchange_weak(head, &operation, std::memory_order_release,
                                               std::memory_order_relaxed));
    return head == nullptr;
}

void WorkerPool::complete_here(FileOperation& operation, std::int64_t result) noexcept {
    operation.engine.place = Place::completed;
    operation.engine.result = result;
    delivering_.push_back(operation);
    event_.signal();
}

void WorkerPool::cancel_running(FileOperation& operation) noexcept {
    operation.engine.cancelled = true;
    for (const std::unique_ptr<Worker>& worker : workers_) {
        if (worker->current == &operation) {
            wake_cancelled(*worker);
        }
    }
}

// With the mutex held, as the next one takes it.
void WorkerPool::wake_cancelled(const Worker& worker) noexcept {
    if (worker.waiting) {
        worker.interrupt->signal();
    } else if (worker.may_block()) {
        interrupt(worker.handle);
        interrupts_ = true;
    }
}

void WorkerPool::wake_cancelled_again() noexcept {
    const std::lock_guard lock(mutex_);
    interrupts_ = false;
    for (const std::unique_ptr<Worker>& worker : workers_) {
        if (worker->may_block() && worker->current->engine.cancelled) {
            wake_cancelled(*worker);
        }
    }
}

void WorkerPool::cancel(FileOperation& operation) noexcept {
    if (operation.kind == FileOperation::Kind::close) {
        return;
    }
    const std::lock_guard lock(mutex_);
    switch (operation.engine.place) {
    case Place::started:
        added_.remove(operation);
        break;
    case Place::queued:
        queue_.remove(operation);
        break;
    default:
        cancel_running(operation);
        return;
    }
    operation.engine.cancelled = true;
    complete_here(operation, -ECANCELED);
}

void WorkerPool::cancel_all() noexcept {
    const std::lock_guard lock(mutex_);
    for (OperationList* list : {&added_, &queue_}) {
        for (FileOperation *it = list->front(), *next = nullptr; it != nullptr; it = next) {
            next = it->engine.next;
            if (it->kind != FileOperation::Kind::close) {
                list->remove(*it);
                it->engine.cancelled = true;
                complete_here(*it, -ECANCELED);
            }
        }
    }
    for (const std::unique_ptr<Worker>& worker : workers_) {
        if (worker->current != nullptr) {
            cancel_running(*worker->current);
        }
    }
}

FileOperation* WorkerPool::pop_completed() noexcept {
    if (FileOperation* operation = delivering_.pop_front()) {
        return operation;
    }
    FileOperation* newest_first = completed_.exchange(nullptr, std::memory_order_acquire);
    OperationList oldest_first;
    while (newest_first != nullptr) {
        FileOperation* following = newest_first->engine.next;
        oldest_first.push_front(*newest_first);
        newest_first = following;
    }
    delivering_.append(oldest_first);
    return delivering_.pop_front();
}

} // namespace penstock::io
