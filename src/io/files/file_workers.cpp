#include "io/files/file_workers.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <poll.h>
#include <pthread.h>

#include <penstock/io/blocked_signals.hpp>

#include "io/files/thread_interrupt.hpp"

namespace penstock::io {

namespace {

using Kind = FileOperation::Kind;
using Stage = FileOperation::EngineState::Stage;

/// The maximum number of threads that wait for other processes and are not counted.
constexpr unsigned max_blocked_threads = 256;

/// Whether the operation waits for another process as soon as it starts.
bool may_block_indefinitely(const FileOperation& operation) noexcept {
    return operation.may_block_indefinitely || operation.engine.may_block_indefinitely;
}

} // namespace

/// One thread and its current operation. The pool's mutex guards `current`, `waiting` and the
/// operation's `cancelled`.
class FileWorkers::Worker final : public CallContext {
public:
    explicit Worker(FileWorkers& pool) noexcept : pool_(pool) {}
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

    /// Whether it is in a system call that only a signal ends, or about to make one. With the mutex
    /// held.
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
    std::unique_ptr<CompletionEvent> interrupt; ///< created by the first wait

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
        if (waiting && !may_block_indefinitely(*current)) {
            pool_.begin_blocking();
        }
        return waiting ? 0 : -ECANCELED;
    }

    bool end_waiting() noexcept {
        const std::lock_guard lock(pool_.mutex_);
        waiting = false;
        if (!may_block_indefinitely(*current)) {
            --pool_.blocked_;
        }
        if (current->engine.cancelled) {
            interrupt->clear();
        }
        return current->engine.cancelled;
    }

    FileWorkers& pool_;
};

FileWorkers::FileWorkers(unsigned max_threads, std::uint32_t max_transfer,
                         CompletionEvent& event) noexcept
    : max_threads_(max_threads), max_transfer_(max_transfer), event_(event) {}

FileWorkers::~FileWorkers() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    workers_.clear();
}

void FileWorkers::add(FileOperation& operation) noexcept {
    operation.engine.stage = Stage::started;
    added_.push_back(operation);
}

void FileWorkers::flush() noexcept {
    if (interrupts_) {
        wake_all_cancelled();
    }
    if (added_.empty()) {
        return;
    }
    for (FileOperation* it = added_.front(); it != nullptr; it = OperationList::after(*it)) {
        it->engine.stage = Stage::queued;
    }
    const std::lock_guard lock(mutex_);
    queue_.append(added_);
    wake_another();
}

// With the mutex held. Only one thread at a time is woken. If it finds more work than it takes, it
// wakes the next thread, so that a burst of short operations does not wake all threads.
void FileWorkers::wake_another() noexcept {
    if (waking_ || queue_.empty()) {
        return;
    }
    if (idle_ != 0) {
        waking_ = true;
        wake_.notify_one();
    } else if (workers_.size() < max_threads_ + std::min(blocked_, max_blocked_threads)) {
        waking_ = start_thread();
        if (workers_.empty()) {
            fail_queued(EAGAIN);
        }
    }
}

// With the mutex held.
void FileWorkers::begin_blocking() noexcept {
    ++blocked_;
    wake_another();
}

bool FileWorkers::start_thread() noexcept {
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

void FileWorkers::fail_queued(int error) noexcept {
    while (FileOperation* operation = queue_.pop_front()) {
        operation->engine.result = -error;
        if (push_completed(*operation)) {
            event_.signal();
        }
    }
}

void FileWorkers::work(Worker& worker) noexcept {
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
        operation->engine.stage = Stage::running;
        worker.current = operation;
        const bool blocks = may_block_indefinitely(*operation);
        if (blocks) {
            begin_blocking();
        } else {
            wake_another();
        }
        lock.unlock();
        const std::int64_t result = perform(*operation, worker);
        lock.lock();
        worker.current = nullptr;
        if (blocks) {
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

// Any thread. From here on the operation belongs to the loop's thread. True if the caller must
// signal the loop.
bool FileWorkers::push_completed(FileOperation& operation) noexcept {
    return completed_.push(operation);
}

void FileWorkers::complete_here(FileOperation& operation, std::int64_t result) noexcept {
    operation.engine.stage = Stage::completed;
    operation.engine.result = result;
    delivering_.push_back(operation);
    event_.signal();
}

void FileWorkers::cancel_running(FileOperation& operation) noexcept {
    operation.engine.cancelled = true;
    for (const std::unique_ptr<Worker>& worker : workers_) {
        if (worker->current == &operation) {
            wake_cancelled(*worker);
        }
    }
}

// With the mutex held.
void FileWorkers::wake_cancelled(const Worker& worker) noexcept {
    if (worker.waiting) {
        worker.interrupt->signal();
    } else if (worker.may_block()) {
        interrupt(worker.handle);
        interrupts_ = true;
    }
}

void FileWorkers::wake_all_cancelled() noexcept {
    const std::lock_guard lock(mutex_);
    interrupts_ = false;
    for (const std::unique_ptr<Worker>& worker : workers_) {
        if (worker->may_block() && worker->current->engine.cancelled) {
            wake_cancelled(*worker);
        }
    }
}

void FileWorkers::cancel(FileOperation& operation) noexcept {
    if (operation.kind == FileOperation::Kind::close) {
        return;
    }
    const std::lock_guard lock(mutex_);
    switch (operation.engine.stage) {
    case Stage::started:
        added_.remove(operation);
        break;
    case Stage::queued:
        queue_.remove(operation);
        break;
    default:
        cancel_running(operation);
        return;
    }
    operation.engine.cancelled = true;
    complete_here(operation, -ECANCELED);
}

void FileWorkers::cancel_all() noexcept {
    const std::lock_guard lock(mutex_);
    for (OperationList* list : {&added_, &queue_}) {
        for (FileOperation *it = list->front(), *next = nullptr; it != nullptr; it = next) {
            next = OperationList::after(*it);
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

FileOperation* FileWorkers::pop_completed() noexcept {
    if (FileOperation* operation = delivering_.pop_front()) {
        return operation;
    }
    completed_.move_to(delivering_);
    return delivering_.pop_front();
}

} // namespace penstock::io
