#include <penstock/detail/stream_operations.hpp>

#include <algorithm>
#include <array>

#include <sys/uio.h>

namespace penstock::detail {

std::size_t gather(std::span<const Bytes> parts, std::size_t offset,
                   std::span<iovec, parts_in_a_call> window) noexcept {
    const std::size_t count = std::min(parts.size(), window.size());
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t skipped = i == 0 ? offset : 0;
        window[i].iov_base = const_cast<std::byte*>(parts[i].data() + skipped);
        window[i].iov_len = parts[i].size() - skipped;
    }
    return count;
}

ssize_t SocketCalls::write_together(int fd, std::span<const Bytes> parts,
                                    std::size_t offset) noexcept {
    std::array<iovec, parts_in_a_call> window; // NOLINT(cppcoreguidelines-pro-type-member-init)
    msghdr message{};
    message.msg_iov = window.data();
    message.msg_iovlen = gather(parts, offset, window);
    return uninterrupted([&] { return ::sendmsg(fd, &message, MSG_NOSIGNAL); });
}

} // namespace penstock::detail
