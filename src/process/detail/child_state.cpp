#include <penstock/process/detail/child_state.hpp>

#include <cerrno>
#include <csignal>
#include <list>
#include <mutex>
#include <utility>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/io/never_destroyed.hpp>
#include <penstock/owned_descriptor.hpp>

namespace penstock::process::detail {

namespace {

/// Processes whose `Child` was destroyed first. Without a wait they would stay zombies until this
/// program ends.
class Orphans {
public:
    /// The only instance. Never destroyed, because static objects may own children.
    [[nodiscard]] static Orphans& instance() {
        static io::NeverDestroyed<Orphans> orphans;
        return *orphans;
    }

    /// Takes over the only element of `place`. Allocates nothing, so that no process is lost.
    void adopt(std::list<OwnedDescriptor>& place) noexcept {
        const std::lock_guard guard(lock_);
        running_.splice(running_.end(), place);
    }

    void reap() noexcept {
        const std::unique_lock guard(lock_, std::try_to_lock); // another thread is already reaping
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
    std::list<OwnedDescriptor> running_;
};

} // namespace

std::error_code ChildState::poll() noexcept {
    if (status) {
        return {};
    }
    siginfo_t information{};
    // Through the pidfd: if other code has reaped the process, its number may belong to another
    // one.
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

Result<> ChildState::send_signal(int number) noexcept {
    if (status) {
        return failure(std::errc::no_such_process);
    }
    // As a raw system call: glibc has a wrapper only since 2.36.
    if (::syscall(SYS_pidfd_send_signal, pidfd->descriptor(), number, nullptr, 0) != 0) {
        return last_failure();
    }
    return {};
}

ChildState::~ChildState() {
    // In a forked child this is a copy. The process belongs to the parent.
    if (pidfd == nullptr || status || parent != ::getpid()) {
        return;
    }
    if (kill_on_close) {
        // Its end is not awaited: the kernel takes a second to free some gigabytes, and a process
        // that hangs in the kernel has no end. That would stop the loop.
        (void)send_signal(SIGKILL);
    }
    if (poll() || status) {
        return;
    }
    place_of_orphan.front() = OwnedDescriptor(pidfd->release());
    Orphans::instance().adopt(place_of_orphan);
    Orphans::instance().reap();
}

void reap_orphans() noexcept {
    Orphans::instance().reap();
}

} // namespace penstock::process::detail
