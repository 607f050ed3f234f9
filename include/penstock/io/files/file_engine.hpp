#pragma once

#include <cstddef>
#include <string_view>
#include <system_error>

#include <penstock/io/files/file_operation.hpp>

namespace penstock::io {

/// The interface between a loop and file I/O: io_uring, or worker threads where the kernel or a
/// container refuses the ring. `choose_file_engine` makes one.
///
/// `EventLoop::attach` connects it to an `EventLoop`, which calls `flush` once in each iteration,
/// right before it may block, so that all operations that one batch of callbacks has started are
/// submitted together. It delivers completions when `descriptor` is readable.
///
/// On any other loop: watch `descriptor` for reading and call `process` when it is readable. After
/// starting or cancelling operations outside of `on_complete`, call `flush` (once for a batch,
/// before the loop blocks), and call `process` if it returns true.
///
/// Within `on_complete` only these members may be called: `start`, `cancel`, `cancel_all`,
/// `withdraw`, `interrupt`, `name`, `ring_refusal`, `descriptor` and `in_flight`.
///
/// Only one thread at a time may use an engine, except for `descriptor` and `name`. An engine does
/// not survive a fork: in the child, `start` fails with `std::errc::owner_dead`, the other members
/// do nothing, and destroying it does not affect the parent's operations.
class FileEngine {
public:
    FileEngine() = default;
    FileEngine(const FileEngine&) = delete;
    FileEngine& operator=(const FileEngine&) = delete;

    /// Calls `close`.
    virtual ~FileEngine() = default;

    /// "uring" or "threads". A ring whose kernel refuses further work at run time, for example
    /// after a seccomp filter was installed, hands all it has to threads, and becomes "threads".
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// The errno with which the kernel has refused the ring since it was made; 0 if it has not.
    [[nodiscard]] virtual int ring_refusal() const noexcept { return 0; }

    /// Starts an operation. After an error, `on_complete` is not called: `operation_canceled` if
    /// `close` has begun, `owner_dead` in a forked child, `device_or_resource_busy` if the
    /// operation is in flight already.
    [[nodiscard]] virtual std::error_code start(FileOperation& operation) = 0;

    /// Requests cancellation. `on_complete` is still called, later and not from within this call,
    /// with -ECANCELED, or with the operation's own result if that came first. A running operation
    /// on a regular file cannot be interrupted; one that waits (in a queue, for a pipe or a
    /// terminal) ends soon. No effect on an operation that is not in flight.
    virtual void cancel(FileOperation& operation) noexcept = 0;

    /// Cancels an operation only if its work has not begun: it is queued, and nothing of it has
    /// happened or will. Then `on_complete` is called with -ECANCELED, as after `cancel`. Returns
    /// whether it was so.
    virtual bool withdraw(FileOperation& operation) noexcept = 0;

    /// Submits what was started since the last call. Returns true if completions are ready to be
    /// delivered: the loop must then not block.
    virtual bool flush() noexcept = 0;

    /// Calls `on_complete` of the operations that have completed, until none is left or `interrupt`
    /// is called. Returns their number. Operations that complete meanwhile or are left make
    /// `descriptor` readable, or the next `flush` return true.
    virtual std::size_t deliver() = 0;

    /// Stops the running `deliver` after the current operation.
    virtual void interrupt() noexcept = 0;

    /// `deliver` for a level-triggered watch: clears `descriptor` first, and flushes afterwards.
    virtual std::size_t process() = 0;

    /// An eventfd that is written for each batch of completions. An edge-triggered watch never
    /// reads it; a level-triggered one calls `process`.
    [[nodiscard]] virtual int descriptor() const noexcept = 0;

    /// Whether this process was forked from the engine's. What is in flight then belongs to the
    /// parent and never completes here.
    [[nodiscard]] virtual bool in_child() const noexcept = 0;

    /// The number of operations that were started and whose `on_complete` has not been called.
    [[nodiscard]] virtual std::size_t in_flight() const noexcept = 0;

    /// Cancels all operations in flight.
    virtual void cancel_all() noexcept = 0;

    /// Blocks until there is something to deliver or a signal handler has run. Flushes first. Makes
    /// no callback, so an interpreter may release its lock around it. Returns at once if nothing is
    /// in flight.
    virtual void wait() noexcept = 0;

    /// Cancels all operations in flight, waits for them, delivers them, and releases the threads,
    /// the ring and the descriptor. `start` is refused meanwhile. Safe to call twice. An owner that
    /// must not block while it holds a lock does this first:
    ///
    ///     engine.cancel_all();
    ///     while (engine.in_flight() != 0) { engine.wait(); engine.process(); }
    virtual void close() noexcept = 0;

protected:
    /// For engines: sets what `FileOperation::in_flight` reports.
    static void set_in_flight(FileOperation& operation, bool value) noexcept {
        operation.in_flight_ = value;
    }
};

} // namespace penstock::io
