#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <sys/types.h>

#include <penstock/process/detail/child_state.hpp>
#include <penstock/process/exit_status.hpp>
#include <penstock/process/terminal.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/pipe.hpp>

namespace penstock::process {

/// A process started by `Command::spawn`.
///
/// It is identified by a process descriptor (pidfd_open(2)), not by its number alone. No signal can
/// reach an unrelated process that reuses the number, and no SIGCHLD handler is needed.
///
/// Destroying the object leaves a running process running, unless `Command::kill_on_close` was set.
/// The destructor reaps a process that has already ended. One that ends later, even one that the
/// destructor has killed, stays a zombie until the program next starts a process or destroys a
/// `Child`.
///
/// Thread safety: belongs to the loop on which a task first waits for it, and to that loop's
/// thread.
class Child {
public:
    using Wait = detail::WaitOperation;

    /// The parent's ends of the requested pipes. Closed if no pipe was requested.
    PipeWriter input{};
    PipeReader output{};
    PipeReader error{};

    /// The pseudo-terminal, if one was requested.
    Terminal terminal{};

    [[nodiscard]] pid_t pid() const noexcept { return state_ ? state_->pid : 0; }

    /// Waits for the end of the process and returns its exit status. May be called again. This does
    /// not read the output: a child that has filled a pipe without a reader never ends.
    ///
    /// Errors: `no_child_process` if other code has reaped the process.
    ///
    /// Cancellation: a cancelled wait leaves the process running. Its status is kept for the next
    /// wait.
    [[nodiscard]] Wait wait() noexcept { return Wait(state_.get()); }

    /// The exit status, without waiting. Empty while the process runs.
    [[nodiscard]] Result<std::optional<ExitStatus>> try_wait() noexcept;

    /// Sends a signal (pidfd_send_signal(2)): SIGTERM requests termination, SIGKILL forces it.
    /// Errors: `no_such_process` if the process has ended and was waited for, and the others of
    /// pidfd_send_signal(2).
    Result<> signal(int number) noexcept;

    /// Sends SIGKILL. Does not wait for the end: call `wait`.
    Result<> kill() noexcept;

private:
    friend class Command;

    std::unique_ptr<detail::ChildState> state_;
};

} // namespace penstock::process
