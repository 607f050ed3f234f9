#include <penstock/detail/io/datagram_operations.hpp>

#include <algorithm>
#include <array>

#include <sys/socket.h>
#include <sys/uio.h>

namespace penstock::detail {

namespace {

/// The number of datagrams in one call: enough to amortise its cost, small enough for the stack.
constexpr std::size_t max_datagrams = 64;

} // namespace

ssize_t receive_datagram(int fd, MutableBytes into, net::ReceivedDatagram& received) noexcept {
    sockaddr_in6 sender{}; // the larger of the two families
    iovec part{.iov_base = into.data(), .iov_len = into.size()};
    msghdr message{};
    message.msg_name = &sender;
    message.msg_namelen = sizeof sender;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t count = uninterrupted([&] { return ::recvmsg(fd, &message, 0); });
    if (count >= 0) {
        const auto* address = reinterpret_cast<const sockaddr*>(&sender);
        received.size = static_cast<std::size_t>(count);
        received.sender =
            net::Endpoint::from_native(address, message.msg_namelen).value_or(net::Endpoint());
        received.truncated = (message.msg_flags & MSG_TRUNC) != 0;
    }
    return count;
}

ssize_t send_datagram(int fd, Bytes from, const std::optional<net::Endpoint>& to) noexcept {
    const sockaddr* address = to ? to->native() : nullptr;
    const socklen_t size = to ? to->native_size() : 0;
    return uninterrupted(
        [&] { return ::sendto(fd, from.data(), from.size(), MSG_NOSIGNAL, address, size); });
}

int send_datagrams(int fd, std::span<const net::OutgoingDatagram> datagrams) noexcept {
    // NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): filled as far as they are used
    std::array<iovec, max_datagrams> parts;
    std::array<mmsghdr, max_datagrams> messages;
    // NOLINTEND(cppcoreguidelines-pro-type-member-init)
    const std::size_t count = std::min(datagrams.size(), messages.size());
    for (std::size_t i = 0; i < count; ++i) {
        const net::OutgoingDatagram& datagram = datagrams[i];
        parts[i] = {.iov_base = const_cast<std::byte*>(datagram.bytes.data()),
                    .iov_len = datagram.bytes.size()};
        messages[i] = {};
        msghdr& header = messages[i].msg_hdr;
        header.msg_iov = &parts[i];
        header.msg_iovlen = 1;
        if (datagram.to) {
            header.msg_name = const_cast<sockaddr*>(datagram.to->native());
            header.msg_namelen = datagram.to->native_size();
        }
    }
    return uninterrupted([&] {
        return ::sendmmsg(fd, messages.data(), static_cast<unsigned>(count), MSG_NOSIGNAL);
    });
}

} // namespace penstock::detail
