#pragma once

#include <cstddef>
#include <memory>

#include <penstock/io/files/file_engine.hpp>
#include <penstock/io/files/file_engine_options.hpp>
#include <penstock/io/fork_mark.hpp>

#include "io/files/completion_event.hpp"
#include "io/files/file_workers.hpp"

namespace penstock::io {

/// The common part of all engines: the life cycle of an operation, the descriptor, closing and
/// forking, and worker threads. By itself it is the engine of worker threads; a derived engine
/// intercepts operations before they reach the threads.
///
/// Owns the threads and the eventfd, never an operation: that belongs to its waiter, which must not
/// move or free it between `start` and its completion. Each started operation completes exactly
/// once, even after `cancel`, and only from `deliver`, which `process` and `close` call too. A
/// completion may start other operations.
///
/// Thread safety: only on the loop's thread; the workers touch nothing here but their own queues
/// and the eventfd. In a forked child nothing starts any more, and what belongs to the parent is
/// left alone.
///
/// Cost: no allocation for an operation. One write to the eventfd and one wake-up of the loop for
/// any number of completions.
class PooledEngine : public FileEngine {
public:
    explicit PooledEngine(const FileEngineOptions& options);

    [[nodiscard]] std::error_code start(FileOperation& operation) final;
    void cancel(FileOperation& operation) noexcept final;
    bool withdraw(FileOperation& operation) noexcept final;
    bool flush() noexcept final;
    std::size_t deliver() final;
    void interrupt() noexcept final { interrupted_ = true; }
    std::size_t process() final;
    [[nodiscard]] int descriptor() const noexcept final { return event_.descriptor(); }
    [[nodiscard]] bool in_child() const noexcept final { return fork_mark_.in_child(); }
    [[nodiscard]] std::size_t in_flight() const noexcept final { return in_flight_; }
    void cancel_all() noexcept final;
    void wait() noexcept final;
    void close() noexcept final;

protected:
    // A derived engine's destructor must call `close`. Here its members no longer exist.

    // The functions that a derived engine overrides.

    /// Takes an operation, which starts with the next `submit`.
    virtual void add(FileOperation& operation) noexcept;
    virtual void submit() noexcept { workers_->flush(); }
    virtual void request_cancel(FileOperation& operation) noexcept { workers_->cancel(operation); }
    virtual bool request_withdrawal(FileOperation& operation) noexcept {
        return workers_->withdraw(operation);
    }
    virtual void request_cancel_all() noexcept { workers_->cancel_all(); }
    [[nodiscard]] virtual FileOperation* pop_completed() noexcept {
        return workers_->pop_completed();
    }
    [[nodiscard]] virtual bool has_completed() noexcept { return workers_->has_completed(); }

    /// Continues a `read_file` that has got a larger buffer.
    virtual void resume(FileOperation& operation) noexcept { workers_->add(operation); }

    /// Closes the file that an operation that ends has opened.
    virtual void close_opened_file(FileOperation& operation) noexcept {
        close_opened_fd(operation);
    }

    /// Releases the engine's resources. Nothing is in flight.
    virtual void release() noexcept { workers_.reset(); }

    /// The same in a forked child: what belongs to the parent is leaked, not ended.
    virtual void abandon() noexcept { static_cast<void>(workers_.release()); }

    [[nodiscard]] FileWorkers& workers() noexcept { return *workers_; }
    [[nodiscard]] CompletionEvent& event() noexcept { return event_; }

private:
    [[nodiscard]] bool usable() const noexcept { return !closed_ && !in_child(); }
    void finish(FileOperation& operation);

    CompletionEvent event_;
    ForkMark fork_mark_;
    std::unique_ptr<FileWorkers> workers_;
    std::size_t in_flight_ = 0;
    bool closing_ = false;
    bool closed_ = false;
    bool interrupted_ = false;
};

} // namespace penstock::io
