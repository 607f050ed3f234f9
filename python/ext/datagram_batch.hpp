#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <sys/socket.h>

namespace penstock::python {

/// Datagrams fetched with one system call (recvmmsg(2)), and the memory they are fetched into. One
/// serves all sockets of a loop, but only one at a time.
///
/// Buffers of its own, not the loop's shared one: while the first datagrams are delivered the others
/// still lie in it.
class DatagramBatch {
public:
    static constexpr int capacity = 16;

    /// The largest UDP datagram has 65507 bytes; only Unix datagrams can be longer. A little more than
    /// that, lest the beginnings of all slots compete for the same few lines of the cache.
    static constexpr std::size_t slot_size = std::size_t{64} * 1024 + std::size_t{17} * 64;
    static constexpr std::size_t whole_size = std::size_t{256} * 1024;

    struct Datagram {
        const char* data;
        std::size_t size;
        const sockaddr* sender;
        socklen_t sender_length;
    };

    /// Throws `std::bad_alloc`. The memory is the kernel's to give: what no datagram has reached does
    /// not exist.
    DatagramBatch();

    /// Fetches up to `wanted` datagrams without waiting; how many, or -1 with errno set.
    int receive(int fd, int wanted) noexcept;

    /// Fetches one of up to `whole_size` bytes.
    int receive_whole(int fd) noexcept;

    [[nodiscard]] Datagram operator[](int index) const noexcept;

private:
    std::unique_ptr<char[]> buffer_;
    std::array<mmsghdr, capacity> messages_{};
    std::array<iovec, capacity> chunks_{};
    std::array<sockaddr_storage, capacity> senders_;
};

} // namespace penstock::python
