#pragma once

#include <cstddef>
#include <memory>

#include <penstock/io/file_engine.hpp>
#include <penstock/io/file_engine_options.hpp>
#include <penstock/io/fork_mark.hpp>

#include "io/completion_event.hpp"
#include "io/worker_pool.hpp"

namespace penstock::io {

/// What all engines have in common: the life of an operation, the descriptor, closing and forking, and a
/// pool of worker threads. Without anything before the pool it is the engine of worker threads.
class PooledEngine : public FileEngine {
public:
    explicit PooledEngine(const FileEngineOptions& options);

    [[nodiscard]] std::error_code start(FileOperation& operation) final;
    void cancel(FileOperation& operation) noexcept final;
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
    // A derived engine's destructor calls `close`: here its members would be gone already.

    // What a derived engine puts before the pool.

    /// Takes an operation in, to be begun by `submit`.
    virtual void take(FileOperation& operation) noexcept { pool_->add(operation); }
    virtual void submit() noexcept { pool_->flush(); }
    virtual void stop(FileOperation& operation) noexcept { pool_->cancel(operation); }
    virtual void stop_all() noexcept { pool_->cancel_all(); }
    [[nodiscard]] virtual FileOperation* pop_completed() noexcept { return pool_->pop_completed(); }
    [[nodiscard]] virtual bool has_completed() noexcept { return pool_->has_completed(); }

    /// Goes on with a `read_file` that has got room.
    virtual void resume(FileOperation& operation) noexcept { pool_->add(operation); }

    /// Closes what an operation that is over has open.
    virtual void let_go(FileOperation& operation) noexcept { close_what_it_opened(operation); }

    /// Gives back what the engine holds; nothing is in flight.
    virtual void release() noexcept { pool_.reset(); }

    /// The same in a forked child: what belongs to the parent is only let go of.
    virtual void abandon() noexcept { static_cast<void>(pool_.release()); }

    [[nodiscard]] WorkerPool& pool() noexcept { return *pool_; }
    [[nodiscard]] CompletionEvent& event() noexcept { return event_; }

private:
    [[nodiscard]] bool usable() const noexcept { return !closed_ && !in_child(); }
    void finish(FileOperation& operation);

    CompletionEvent event_;
    ForkMark fork_mark_;
    std::unique_ptr<WorkerPool> pool_;
    std::size_t in_flight_ = 0;
    bool closing_ = false;
    bool closed_ = false;
    bool interrupted_ = false;
};

} // namespace penstock::io
