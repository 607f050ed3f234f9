#pragma once

#include <cstddef>
#include <string_view>
#include <system_error>

#include <penstock/io/file_operation.hpp>

namespace penstock::io {

/// The seam between a loop and whatever does file I/O: io_uring, or a pool of worker threads where
/// the kernel or a container refuses the ring. `choose_file_engine` makes one.
///
/// On an `EventLoop`, `attach` does the rest: it calls `flush` once an iteration, right before it may
/// block, so that all operations started by one batch of callbacks leave in one submission, and
/// delivers completions when `descriptor` says so.
///
/// On any other loop: watch `descriptor` for reading and call `process` when it is readable; call
/// `flush` after starting or cancelling operations elsewhere than in `on_complete` (once for a batch of
/// them, before that loop blocks), and `process` when it returns true.
///
/// No member may be called from within `on_complete` but `start`, `cancel`, `cancel_all`,
/// `interrupt`, `name`, `descriptor` and `in_flight`.
///
/// Only one thread at a time may call an engine, but for `descriptor` and `name`. An engine does not
/// outlive a fork: in the child `start` fails with `std::errc::owner_dead`, the other members do
/// nothing, and destroying it there leaves the parent's work alone.
class FileEngine {
public:
    FileEngine() = default;
    FileEngine(const FileEngine&) = delete;
    FileEngine& operator=(const FileEngine&) = delete;

    /// Ends with `close`.
    virtual ~FileEngine() = default;

    /// "uring" or "threads".
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// Starts an operation. Errors that are known at once are returned, and `on_complete` is not
    /// called then: `operation_canceled` after `close` has begun, `owner_dead` in a forked child,
    /// `device_or_resource_busy` for an operation that is in flight already.
    [[nodiscard]] virtual std::error_code start(FileOperation& operation) = 0;

    /// Asks for an early end. `on_complete` still comes, later and not from within this call, with
    /// -ECANCELED or with the result that was faster. An operation on a regular file that has begun
    /// cannot be cut short; one that waits (in a queue, for a pipe or a terminal) ends soon. Nothing
    /// happens to an operation that is not in flight.
    virtual void cancel(FileOperation& operation) noexcept = 0;

    /// Submits what was started since the last call. True when completions wait to be delivered:
    /// the loop must not block then.
    virtual bool flush() noexcept = 0;

    /// Calls `on_complete` of what has completed, until all of it is done or `interrupt` is called,
    /// and returns how many it was. What completes meanwhile, or is left over, makes `descriptor`
    /// readable or the next `flush` return true.
    virtual std::size_t deliver() = 0;

    /// Ends the running `deliver` after the current operation.
    virtual void interrupt() noexcept = 0;

    /// `deliver` for a level-triggered watch: empties `descriptor` before it, flushes behind it.
    virtual std::size_t process() = 0;

    /// An eventfd, written for each batch of completions. An edge-triggered watch never has to read it,
    /// a level-triggered one calls `process`.
    [[nodiscard]] virtual int descriptor() const noexcept = 0;

    /// Whether this process is a child that was forked from the engine's: what is in flight then belongs
    /// to the parent, and nothing here will ever complete it.
    [[nodiscard]] virtual bool in_child() const noexcept = 0;

    /// Operations that were started and whose `on_complete` has not returned.
    [[nodiscard]] virtual std::size_t in_flight() const noexcept = 0;

    /// Cancels all that is in flight.
    virtual void cancel_all() noexcept = 0;

    /// Blocks until `deliver` has something to do, or a signal handler has run. Flushes first. Calls
    /// nobody, so that an interpreter may release its lock around it. Nothing in flight: returns at
    /// once.
    virtual void wait() noexcept = 0;

    /// Cancels all that is in flight, waits for it, delivers it, and gives back threads, ring and
    /// descriptor. What `on_complete` starts meanwhile is refused. Safe to call twice. For owners
    /// that must not block with a lock held, who first do this themselves:
    ///
    ///     engine.cancel_all();
    ///     while (engine.in_flight() != 0) { engine.wait(); engine.process(); }
    virtual void close() noexcept = 0;

protected:
    /// For engines: an operation's life as its owner sees it.
    static void set_in_flight(FileOperation& operation, bool value) noexcept {
        operation.in_flight_ = value;
    }
};

} // namespace penstock::io
