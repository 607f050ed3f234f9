#include <penstock/detail/file_calls.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <sys/uio.h>
#include <unistd.h>

#include <penstock/detail/pollable.hpp>
#include <penstock/detail/scatter_operations.hpp>
#include <penstock/detail/stream_operations.hpp>

namespace penstock::detail {

namespace {

/// pwritev2(2): EPIPE raises no signal. Linux 6.18; older kernels answer EOPNOTSUPP.
constexpr int rwf_no_signal = 0x100;

/// Blocks SIGPIPE on this thread for a write, and takes back the one that the write has raised. One
/// that was pending before is somebody else's and stays.
class WithoutPipeSignal {
public:
    WithoutPipeSignal() noexcept {
        sigemptyset(&pipe_signal_);
        sigaddset(&pipe_signal_, SIGPIPE);
        sigset_t pending;
        sigemptyset(&pending);
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_signal_, &mask_);
    }
    ~WithoutPipeSignal() {
        const int saved = errno;
        if (!was_pending_ && saved == EPIPE) {
            const timespec at_once{};
            while (sigtimedwait(&pipe_signal_, nullptr, &at_once) < 0 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
        errno = saved;
    }
    WithoutPipeSignal(const WithoutPipeSignal&) = delete;
    WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

private:
    sigset_t pipe_signal_{};
    sigset_t mask_{};
    bool was_pending_ = false;
};

ssize_t write_quietly(int fd, const iovec* parts, int count) noexcept {
    static std::atomic<bool> kernel_can{true};
    if (kernel_can.load(std::memory_order_relaxed)) {
        const ssize_t written = ::pwritev2(fd, parts, count, -1, rwf_no_signal);
        if (written >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)) {
            return written;
        }
        kernel_can.store(false, std::memory_order_relaxed);
    }
    errno = 0;
    const WithoutPipeSignal guard;
    return ::writev(fd, parts, count);
}

} // namespace

ssize_t FileCalls::read(int fd, MutableBytes into) noexcept {
    return uninterrupted([&] { return ::read(fd, into.data(), into.size()); });
}

ssize_t FileCalls::read(int fd, std::span<const iovec> parts) noexcept {
    return read_parts(fd, parts);
}

ssize_t FileCalls::write(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept {
    std::array<iovec, parts_in_a_call> window; // NOLINT(cppcoreguidelines-pro-type-member-init)
    const std::size_t count = gather(parts, offset, window);
    return uninterrupted([&] { return write_quietly(fd, window.data(), static_cast<int>(count)); });
}

} // namespace penstock::detail
