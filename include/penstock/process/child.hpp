#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <sys/types.h>

#include <penstock/detail/pollable.hpp>
#include <penstock/pipe.hpp>
#include <penstock/process/exit_status.hpp>
#include <penstock/process/terminal.hpp>
#include <penstock/result.hpp>

namespace penstock::process {

namespace detail {

/// A process and how it ended, once that is known.
struct ChildState {
    std::unique_ptr<penstock::detail::Pollable> pidfd;
    pid_t pid = 0;
    pid_t parent = 0; ///< who has started it, and may wait for it
    std::optional<ExitStatus> status{};

    /// Asks the kernel whether it has ended, and if so takes its status, which the kernel then forgets.
    /// The error is waitid(2)'s: `no_child_process` when somebody else has taken it.
    [[nodiscard]] std::error_code ask() noexcept;
};

/// Takes the ends of those processes from the kernel whose `Child` has ended before they did.
void reap_orphans() noexcept;

class WaitOperation final
    : public penstock::detail::SystemCallOperation<WaitOperation, ExitStatus> {
public:
    explicit WaitOperation(ChildState* state) noexcept
        : SystemCallOperation(state != nullptr ? state->pidfd.get() : nullptr,
                              penstock::detail::Direction::reading),
          state_(state) {}

    bool attempt() noexcept {
        error_ = state_->ask();
        return error_ || state_->status.has_value();
    }

    [[nodiscard]] ExitStatus result() const noexcept {
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the attempt has set it
        return *state_->status;
    }

private:
    ChildState* state_;
};

} // namespace detail

/// A running process, made by `Command::spawn`.
///
/// It is known by a process descriptor (pidfd_open(2)), not by its number alone: no signal can reach a
/// stranger that got the number later, and no SIGCHLD handler is needed or disturbed.
///
/// A child object that ends while its process runs leaves it running; `Command::kill_on_close` kills it
/// instead. A process that has ended and was not waited for is taken from the kernel then; one that ends
/// later is a zombie until the program next starts a process or drops such an object.
///
/// Belongs to the thread of the loop on which it is first waited for.
class Child {
public:
    using Wait = detail::WaitOperation;

    Child() = default;
    Child(Child&&) noexcept = default;
    Child& operator=(Child&& other) noexcept {
        Child taken(std::move(other));
        std::swap(input, taken.input);
        std::swap(output, taken.output);
        std::swap(error, taken.error);
        std::swap(terminal, taken.terminal);
        std::swap(state_, taken.state_);
        std::swap(kill_on_close_, taken.kill_on_close_);
        return *this;
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child();

    /// The ends of the pipes that the command asked for; closed ones where it did not.
    PipeWriter input{};
    PipeReader output{};
    PipeReader error{};

    /// The pseudo-terminal, if the command asked for one.
    Terminal terminal{};

    [[nodiscard]] pid_t pid() const noexcept { return state_ ? state_->pid : 0; }

    /// Waits for the process's end and yields how it ended, again and again when asked again. It does
    /// not read its output: a child that fills a pipe which nobody reads never ends. A cancelled wait
    /// leaves the process running and its status for the next one; `no_child_process` when somebody
    /// else has taken that.
    [[nodiscard]] Wait wait() noexcept { return Wait(state_.get()); }

    /// How it ended, without waiting; nothing while it runs.
    [[nodiscard]] Result<std::optional<ExitStatus>> try_wait() noexcept;

    /// Sends a signal (pidfd_send_signal(2)): SIGTERM asks it to end, SIGKILL ends it.
    /// `no_such_process` once it has ended and was waited for.
    Result<> signal(int number) noexcept;

    /// SIGKILL.
    Result<> kill() noexcept;

private:
    friend class Command;

    std::unique_ptr<detail::ChildState> state_;
    bool kill_on_close_ = false;
};

} // namespace penstock::process
