#pragma once

#include <list>
#include <memory>
#include <optional>
#include <system_error>

#include <sys/types.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/process/exit_status.hpp>
#include <penstock/result.hpp>

namespace penstock::process::detail {

/// A process and, once known, its exit status.
struct ChildState {
    ChildState() = default;
    ChildState(const ChildState&) = delete;
    ChildState& operator=(const ChildState&) = delete;
    /// Reaps a process that has ended. A running one is killed if `kill_on_close` is set, and
    /// otherwise kept for `reap_orphans`.
    ~ChildState();

    /// Polls waitid(2) without blocking. If the process has ended, stores its status and reaps it.
    /// Errors: those of waitid(2), `no_child_process` if somebody else has reaped it.
    [[nodiscard]] std::error_code poll() noexcept;

    /// pidfd_send_signal(2). Returns `no_such_process` if the process has ended and was waited for.
    Result<> send_signal(int number) noexcept;

    std::unique_ptr<penstock::detail::Pollable> pidfd;
    pid_t pid = 0;
    pid_t parent = 0; ///< the process that started it and may wait for it
    std::optional<ExitStatus> status{};
    bool kill_on_close = false;
    /// One element, for the pidfd when this object ends first. Allocated here, before the process
    /// starts, because the destructor may find no memory.
    std::list<OwnedDescriptor> place_of_orphan = std::list<OwnedDescriptor>(1);
};

/// Reaps ended processes whose `Child` was destroyed before they ended.
void reap_orphans() noexcept;

class WaitOperation final
    : public penstock::detail::SystemCallOperation<WaitOperation, ExitStatus> {
public:
    explicit WaitOperation(ChildState* state) noexcept
        : SystemCallOperation(state != nullptr ? state->pidfd.get() : nullptr,
                              penstock::detail::Direction::reading),
          state_(state) {}

    bool attempt() noexcept {
        error_ = state_->poll();
        return error_ || state_->status.has_value();
    }

    [[nodiscard]] ExitStatus result() const noexcept {
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the attempt has set it
        return *state_->status;
    }

private:
    ChildState* state_;
};

} // namespace penstock::process::detail
