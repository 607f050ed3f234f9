#include <penstock/detail/io/stream_operations.hpp>

#include <algorithm>
#include <array>

#include <sys/uio.h>

namespace penstock::detail {

std::size_t fill_iovecs(std::span<const Bytes> parts, std::size_t offset,
                        std::span<iovec, max_parts> window) noexcept {
    const std::size_t count = std::min(parts.size(), window.size());
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t skipped = i == 0 ? offset : 0;
        window[i].iov_base = const_cast<std::byte*>(parts[i].data() + skipped);
        window[i].iov_len = parts[i].size() - skipped;
    }
    return count;
}

ssize_t SocketCalls::send_parts(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept {
    std::array<iovec, max_parts> window; // NOLINT(cppcoreguidelines-pro-type-member-init)
    msghdr message{};
    message.msg_iov = window.data();
    message.msg_iovlen = fill_iovecs(parts, offset, window);
    return uninterrupted([&] { return ::sendmsg(fd, &message, MSG_NOSIGNAL); });
}

} // namespace penstock::detail
