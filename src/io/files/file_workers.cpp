#include "io/files/file_workers.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>

#include <penstock/io/blocked_signals.hpp>

#include "io/files/thread_interrupt.hpp"
#include "io/files/thread_limit.hpp"

namespace penstock::io {

namespace {

using Kind = FileOperation::Kind;
using Stage = FileOperation::EngineState::Stage;

/// Whether the operation waits for another process as soon as it starts.
bool starts_patient(const FileOperation& operation) noexcept {
    return operation.may_block_indefinitely || operation.engine.may_block_indefinitely ||
           operation.kind == Kind::splice;
}

} // namespace

/// One thread and its current operation. The pool's mutex guards `current` and the operation's
/// `cancelled`.
class FileWorkers::Worker final : public CallContext {
public:
    Worker(FileWorkers& pool, Lane* lane) noexcept : lane(lane), pool_(pool) {
        max_transfer = pool.max_transfer_;
        patient = lane == &pool.patient_;
        woken = lane != &pool.ordinary_;
    }
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
        return current != nullptr && lane != nullptr &&
               (current->kind == Kind::open || current->kind == Kind::read_file ||
                current->kind == Kind::read || current->kind == Kind::readv ||
                current->kind == Kind::write || current->kind == Kind::writev ||
                current->kind == Kind::splice ||
                (current->kind == Kind::call && current->may_block_indefinitely));
    }

    Lane* const lane; ///< null for the watcher
    std::thread thread;
    pthread_t handle{};
    FileOperation* current = nullptr;

private:
    FileWorkers& pool_;
};

FileWorkers::FileWorkers(const FileEngineOptions& options, CompletionEvent& event) noexcept
    : idle_time_(options.idle_milliseconds), max_transfer_(options.max_transfer), event_(event),
      ordinary_{.queue = {}, .wake = {}, .limit = thread_limit(options)},
      patient_{.queue = {}, .wake = {}, .limit = std::numeric_limits<unsigned>::max()} {}

FileWorkers::~FileWorkers() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        if (waits_ != nullptr) {
            waits_->wake();
        }
    }
    ordinary_.wake.notify_all();
    patient_.wake.notify_all();
    workers_.clear();
}

void FileWorkers::add(FileOperation& operation) noexcept {
    operation.engine.stage = Stage::started;
    operation.engine.awaited_events = 0;
    added_.push_back(operation);
}

void FileWorkers::add_transfer(FileOperation& operation) noexcept {
    operation.engine.stage = Stage::started;
    operation.engine.awaited_fd = operation.fd;
    operation.engine.awaited_events = awaited_by(operation);
    added_transfers_.push_back(operation);
}

void FileWorkers::flush() noexcept {
    if (interrupts()) {
        const std::lock_guard lock(mutex_);
        wake_all_cancelled();
    }
    if (added_.empty() && added_transfers_.empty()) {
        return;
    }
    std::vector<std::unique_ptr<Worker>> ended; // joined without the lock
    const std::lock_guard lock(mutex_);
    while (FileOperation* operation = added_transfers_.pop_front()) {
        start_wait(*operation);
    }
    while (FileOperation* operation = added_.pop_front()) {
        operation->engine.patient = starts_patient(*operation);
        enqueue(*operation);
    }
    wake_another(ordinary_);
    wake_another(patient_);
    ended.swap(ended_);
}

// With the mutex held, as all functions that follow, up to `work`.
void FileWorkers::enqueue(FileOperation& operation) noexcept {
    operation.engine.stage = Stage::queued;
    (operation.engine.patient ? patient_ : ordinary_).queue.push_back(operation);
}

// Only one thread at a time is woken. If it finds more work than it takes, it wakes the next one.
// So a burst of short operations does not wake all threads.
void FileWorkers::wake_another(Lane& lane) noexcept {
    if (lane.waking || lane.queue.empty()) {
        return;
    }
    if (lane.idle != 0) {
        lane.waking = true;
        lane.wake.notify_one();
    } else if (lane.threads < lane.limit) {
        lane.waking = start_thread(&lane);
        if (lane.threads == 0) {
            fail_queued(lane);
        }
    }
}

bool FileWorkers::start_thread(Lane* lane) noexcept {
    try {
        const BlockedSignals blocked;
        auto worker = std::make_unique<Worker>(*this, lane);
        workers_.reserve(workers_.size() + 1);
        ended_.reserve(workers_.size() + ended_.size() + 1); // so that `retire` cannot fail
        worker->thread = std::thread([this, lane, &self = *worker]() noexcept {
            if (lane != nullptr) {
                work(self, *lane);
            } else {
                watch(self);
            }
        });
        worker->handle = worker->thread.native_handle();
        pthread_setname_np(worker->handle, "penstock-file");
        workers_.push_back(std::move(worker));
        if (lane != nullptr) {
            ++lane->threads;
        }
        return true;
    } catch (const std::exception&) { // std::bad_alloc, std::system_error
        return false;
    }
}

/// The thread ends. Another one joins it: a thread cannot join itself.
void FileWorkers::retire(const Worker& worker) noexcept {
    const auto own = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const auto& each) { return each.get() == &worker; });
    if (worker.lane != nullptr) {
        --worker.lane->threads;
    }
    ended_.push_back(std::move(*own));
    *own = std::move(workers_.back());
    workers_.pop_back();
}

void FileWorkers::fail_queued(Lane& lane) noexcept {
    while (FileOperation* operation = lane.queue.pop_front()) {
        operation->engine.result = -EAGAIN;
        operation->engine.without_thread = true;
        if (push_completed(*operation)) {
            event_.signal();
        }
    }
}

/// Makes what the watcher waits in. 0 or an errno.
int FileWorkers::make_waits() noexcept {
    try {
        if (waits_ == nullptr) {
            waits_ = std::make_unique<DescriptorWaits>();
        }
        return 0;
    } catch (const std::system_error& error) {
        return error.code().value();
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

/// Lets an operation wait for its descriptor. 0 or an errno.
int FileWorkers::begin_wait(FileOperation& operation) noexcept {
    if (const int error = make_waits()) {
        return error;
    }
    operation.engine.stage = Stage::waiting;
    if (const int error = waits_->add(operation)) {
        return error;
    }
    if (!watching_) {
        watching_ = start_thread(nullptr);
        if (!watching_) {
            waits_->remove(operation);
            operation.engine.without_thread = true;
            return EAGAIN;
        }
    }
    return 0;
}

void FileWorkers::start_wait(FileOperation& operation) noexcept {
    const int error = begin_wait(operation);
    if (error == EPERM) { // always ready, as far as poll(2) can tell: /dev/null
        operation.engine.patient = true;
        enqueue(operation);
    } else if (error != 0) {
        complete_here(operation, -error);
    }
}

/// After an attempt: completes the operation, or passes it on to where it waits. True if the caller
/// must signal the loop.
bool FileWorkers::settle(FileOperation& operation, std::int64_t result,
                         const Worker& worker) noexcept {
    const bool waits = result == waits_for_descriptor;
    if (waits || result == needs_patience) {
        int error = EPERM;
        if (operation.engine.cancelled) {
            error = ECANCELED;
        } else if (waits) {
            operation.engine.awaited_fd = worker.awaited_fd;
            operation.engine.awaited_events = worker.awaited_events;
            error = begin_wait(operation);
        }
        if (error == 0) {
            return false;
        }
        if (error == EPERM) {
            operation.engine.patient = true;
            enqueue(operation);
            wake_another(patient_);
            return false;
        }
        result = -error;
    }
    operation.engine.result = result;
    return push_completed(operation);
}

void FileWorkers::run(FileOperation& operation, Worker& worker,
                      std::unique_lock<std::mutex>& lock) noexcept {
    operation.engine.stage = Stage::running;
    worker.current = &operation;
    std::int64_t result = -ECANCELED;
    if (!operation.engine.cancelled) {
        lock.unlock();
        result = perform(operation, worker);
        lock.lock();
    }
    worker.current = nullptr;
    if (settle(operation, result, worker)) {
        lock.unlock();
        event_.signal();
        lock.lock();
    }
}

void FileWorkers::work(Worker& worker, Lane& lane) noexcept {
    allow_interrupts();
    std::unique_lock lock(mutex_);
    lane.waking = false;
    while (true) {
        if (FileOperation* operation = lane.queue.pop_front()) {
            wake_another(lane);
            run(*operation, worker, lock);
            continue;
        }
        if (stopping_) {
            return;
        }
        ++lane.idle;
        const bool late = lane.wake.wait_for(lock, idle_time_) == std::cv_status::timeout;
        --lane.idle;
        lane.waking = false;
        if (late && lane.queue.empty() && !stopping_) {
            retire(worker);
            return;
        }
    }
}

void FileWorkers::watch(Worker& worker) noexcept {
    constexpr int shortest_pause = 1; // milliseconds between two interrupts
    constexpr int longest_pause = 50;
    DescriptorWaits::Events events;
    int pause = shortest_pause;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        const bool repeats = interrupts_;
        const bool idle = !repeats && waits_->empty();
        const int limit = repeats ? pause : idle ? static_cast<int>(idle_time_.count()) : -1;
        lock.unlock();
        const int count = waits_->wait(events, limit);
        lock.lock();
        // While the pool ends, its list of threads is cleared without the mutex.
        if (repeats && !stopping_) {
            wake_all_cancelled();
            pause = interrupts_ ? std::min(2 * pause, longest_pause) : shortest_pause;
        }
        if (idle && count == 0 && waits_->empty() && !interrupts_ && !stopping_) {
            watching_ = false;
            retire(worker);
            return;
        }
        for (int i = 0; i < count; ++i) {
            waits_->take(events[static_cast<std::size_t>(i)], ready_);
        }
        waits_->drop_orphans(ready_);
        for (FileOperation* it = ready_.front(); it != nullptr; it = OperationList::after(*it)) {
            it->engine.stage = Stage::running;
        }
        while (FileOperation* operation = ready_.pop_front()) {
            run(*operation, worker, lock);
        }
    }
}

// Any thread, with the mutex held. From here on the operation belongs to the loop's thread. True if
// the caller must signal the loop. Whatever stage it comes from, a cancellation finds it complete
// and in no other list.
bool FileWorkers::push_completed(FileOperation& operation) noexcept {
    operation.engine.stage = Stage::completed;
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
    if (worker.may_block()) {
        interrupt(worker.handle);
        interrupts_ = true;
    }
}

// With the mutex held.
void FileWorkers::wake_all_cancelled() noexcept {
    interrupts_ = false;
    for (const std::unique_ptr<Worker>& worker : workers_) {
        if (worker->may_block() && worker->current->engine.cancelled) {
            wake_cancelled(*worker);
        }
    }
}

/// After interrupts. With the mutex held.
void FileWorkers::repeat_interrupts() noexcept {
    if (!interrupts_) {
        return;
    }
    if (watching_) {
        waits_->wake();
    } else if (make_waits() == 0) {
        watching_ = start_thread(nullptr);
    }
}

/// Removes an operation that no thread has taken. With the mutex held.
bool FileWorkers::remove_queued(FileOperation& operation) noexcept {
    switch (operation.engine.stage) {
    case Stage::started:
        (operation.engine.awaited_events != 0 ? added_transfers_ : added_).remove(operation);
        return true;
    case Stage::queued:
        (operation.engine.patient ? patient_ : ordinary_).queue.remove(operation);
        return true;
    case Stage::waiting:
        waits_->remove(operation);
        if (waits_->empty()) {
            waits_->wake(); // the watcher now waits for a limited time
        }
        return true;
    default:
        return false;
    }
}

void FileWorkers::cancel(FileOperation& operation) noexcept {
    if (operation.kind == Kind::close) {
        return;
    }
    const std::lock_guard lock(mutex_);
    if (!remove_queued(operation)) {
        cancel_running(operation);
        repeat_interrupts();
        return;
    }
    operation.engine.cancelled = true;
    complete_here(operation, -ECANCELED);
}

bool FileWorkers::withdraw(FileOperation& operation) noexcept {
    const std::lock_guard lock(mutex_);
    const Stage stage = operation.engine.stage;
    const bool taken = stage == Stage::running || stage == Stage::completed;
    const bool begun = taken || operation.transferred != 0 || operation.engine.open_fd >= 0;
    if (operation.kind == Kind::close || begun || !remove_queued(operation)) {
        return false;
    }
    operation.engine.cancelled = true;
    complete_here(operation, -ECANCELED);
    return true;
}

void FileWorkers::cancel_all() noexcept {
    const std::lock_guard lock(mutex_);
    const auto cancel = [this](FileOperation& operation) {
        operation.engine.cancelled = true;
        complete_here(operation, -ECANCELED);
    };
    for (OperationList* list : {&added_, &added_transfers_, &ordinary_.queue, &patient_.queue}) {
        for (FileOperation *it = list->front(), *next = nullptr; it != nullptr; it = next) {
            next = OperationList::after(*it);
            if (it->kind != Kind::close) {
                list->remove(*it);
                cancel(*it);
            }
        }
    }
    if (waits_ != nullptr) {
        OperationList waiting;
        waits_->remove_all(waiting);
        waits_->wake();
        while (FileOperation* operation = waiting.pop_front()) {
            cancel(*operation);
        }
    }
    for (FileOperation* it = ready_.front(); it != nullptr; it = OperationList::after(*it)) {
        it->engine.cancelled = true;
    }
    for (const std::unique_ptr<Worker>& worker : workers_) {
        if (worker->current != nullptr) {
            cancel_running(*worker->current);
        }
    }
    repeat_interrupts();
}

FileOperation* FileWorkers::pop_completed() noexcept {
    if (FileOperation* operation = delivering_.pop_front()) {
        return operation;
    }
    completed_.move_to(delivering_);
    return delivering_.pop_front();
}

} // namespace penstock::io
