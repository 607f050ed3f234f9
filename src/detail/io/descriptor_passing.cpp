#include <penstock/detail/io/descriptor_passing.hpp>

#include <array>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace penstock::detail {

namespace {

/// A control buffer for the descriptors of one message, aligned for its header.
struct Control {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(max_descriptors * sizeof(int))> bytes;
};

} // namespace

ssize_t send_with_descriptors(int fd, Bytes from, std::span<const int> descriptors) noexcept {
    iovec part{.iov_base = const_cast<std::byte*>(from.data()), .iov_len = from.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    Control control; // NOLINT(cppcoreguidelines-pro-type-member-init): filled as far as it is used
    if (!descriptors.empty()) {
        message.msg_control = control.bytes.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    return uninterrupted([&] { return ::sendmsg(fd, &message, MSG_NOSIGNAL); });
}

ssize_t receive_with_descriptors(int fd, MutableBytes into,
                                 std::vector<OwnedDescriptor>& descriptors) noexcept {
    // Reserves before the call, so that received descriptors are not lost for lack of memory.
    try {
        descriptors.reserve(descriptors.size() + max_descriptors + 1);
    } catch (const std::bad_alloc&) {
        errno = ENOMEM;
        return -1;
    }
    iovec part{.iov_base = into.data(), .iov_len = into.size()};
    Control control; // NOLINT(cppcoreguidelines-pro-type-member-init): the kernel fills it
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t count = uninterrupted([&] { return ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC); });
    if (count < 0) {
        return count;
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
        for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
            int descriptor = -1;
            std::memcpy(&descriptor, CMSG_DATA(header) + at, sizeof descriptor);
            descriptors.emplace_back(descriptor);
        }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
        descriptors.emplace_back(); // stands for the lost ones; the space is reserved
    }
    return count;
}

} // namespace penstock::detail
