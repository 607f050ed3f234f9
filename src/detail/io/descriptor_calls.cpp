#include <penstock/detail/io/descriptor_calls.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include <sys/uio.h>
#include <unistd.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/detail/io/scatter_operations.hpp>
#include <penstock/detail/io/stream_operations.hpp>
#include <penstock/io/files/uring_compat.hpp>

#include "detail/io/sigpipe_guard.hpp"

namespace penstock::detail {

namespace {

// Kernels before Linux 6.18 return EOPNOTSUPP.
ssize_t write_without_sigpipe(int fd, const iovec* parts, int count) noexcept {
    static std::atomic<bool> kernel_can{true};
    if (kernel_can.load(std::memory_order_relaxed)) {
        const ssize_t written = ::pwritev2(fd, parts, count, -1, io::uring::rwf_nosignal);
        if (written >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)) {
            return written;
        }
        kernel_can.store(false, std::memory_order_relaxed);
    }
    errno = 0;
    const SigpipeGuard guard;
    return ::writev(fd, parts, count);
}

} // namespace

ssize_t DescriptorCalls::read(int fd, MutableBytes into) noexcept {
    return uninterrupted([&] { return ::read(fd, into.data(), into.size()); });
}

ssize_t DescriptorCalls::read(int fd, std::span<const iovec> parts) noexcept {
    return read_parts(fd, parts);
}

ssize_t DescriptorCalls::write(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept {
    std::array<iovec, max_parts> window; // NOLINT(cppcoreguidelines-pro-type-member-init)
    const std::size_t count = fill_iovecs(parts, offset, window);
    return uninterrupted(
        [&] { return write_without_sigpipe(fd, window.data(), static_cast<int>(count)); });
}

} // namespace penstock::detail
