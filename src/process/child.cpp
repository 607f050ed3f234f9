#include <penstock/process/child.hpp>

#include <cerrno>
#include <csignal>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::process {

namespace detail {

std::error_code ChildState::ask() noexcept {
    if (status) {
        return {};
    }
    siginfo_t information{};
    // By the descriptor: the number may be another process's by now when somebody else waited for it.
    const int answer = penstock::detail::uninterrupted([&] {
        return ::waitid(P_PIDFD, static_cast<id_t>(pidfd->descriptor()), &information,
                        WEXITED | WNOHANG);
    });
    if (answer != 0) {
        return {errno, std::system_category()};
    }
    if (information.si_pid == 0) {
        return {};
    }
    status = information.si_code == CLD_EXITED
                 ? ExitStatus::exited(information.si_status)
                 : ExitStatus::killed(information.si_status, information.si_code == CLD_DUMPED);
    return {};
}

} // namespace detail

Child::~Child() {
    if (!state_ || state_->status) {
        return;
    }
    if (kill_on_close_ && kill()) {
        siginfo_t ignored{};
        // Killed, it ends at once, unless it hangs in the kernel; then it is left to the next process up.
        (void)::waitid(P_PIDFD, static_cast<id_t>(state_->pidfd->descriptor()), &ignored, WEXITED);
        return;
    }
    (void)state_->ask();
}

Result<std::optional<ExitStatus>> Child::try_wait() noexcept {
    if (!state_) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (const std::error_code error = state_->ask()) {
        return failure(error);
    }
    return state_->status;
}

Result<> Child::signal(int number) noexcept {
    if (!state_) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (state_->status) {
        return failure(std::errc::no_such_process);
    }
    // By number: the C library has a wrapper only since glibc 2.36.
    if (::syscall(SYS_pidfd_send_signal, state_->pidfd->descriptor(), number, nullptr, 0) != 0) {
        return last_failure();
    }
    return {};
}

Result<> Child::kill() noexcept {
    return signal(SIGKILL);
}

} // namespace penstock::process
