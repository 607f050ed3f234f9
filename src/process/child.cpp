#include <penstock/process/child.hpp>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <new>
#include <vector>

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

namespace {

/// Processes that outlived their objects. Somebody has to take their ends from the kernel, or they stay
/// zombies for as long as this program runs.
class Orphans {
public:
    /// For the process; never destroyed, as children may end after anything.
    [[nodiscard]] static Orphans& instance() {
        static auto& orphans = *new Orphans;
        return orphans;
    }

    void adopt(OwnedDescriptor pidfd) {
        const std::lock_guard guard(lock_);
        running_.push_back(std::move(pidfd));
    }

    void reap() noexcept {
        const std::unique_lock guard(lock_, std::try_to_lock); // a thread that is at it is enough
        if (!guard) {
            return;
        }
        std::erase_if(running_, [](const OwnedDescriptor& pidfd) {
            siginfo_t information{};
            const int answer =
                ::waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &information, WEXITED | WNOHANG);
            return answer != 0 ? errno != EINTR : information.si_pid != 0;
        });
    }

private:
    std::mutex lock_;
    std::vector<OwnedDescriptor> running_;
};

} // namespace

void detail::reap_orphans() noexcept {
    Orphans::instance().reap();
}

Child::~Child() {
    // In a forked child it is the copy of an object of the parent's, whose process it is.
    if (!state_ || state_->status || state_->parent != ::getpid()) {
        return;
    }
    if (kill_on_close_ && kill()) {
        siginfo_t ignored{};
        // Killed, it ends at once, unless it hangs in the kernel; then it is left to the next process up.
        (void)::waitid(P_PIDFD, static_cast<id_t>(state_->pidfd->descriptor()), &ignored, WEXITED);
        return;
    }
    if (state_->ask() || state_->status) {
        return;
    }
    try {
        Orphans::instance().adopt(OwnedDescriptor(state_->pidfd->release()));
        Orphans::instance().reap();
    } catch (const std::bad_alloc&) {
        return; // then nobody takes its end
    }
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
