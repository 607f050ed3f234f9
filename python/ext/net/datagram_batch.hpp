#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <sys/socket.h>

namespace penstock::python {

/// Receives several datagrams with one system call (recvmmsg(2)) into memory of its own. All
/// sockets of a loop share one batch, one socket at a time.
///
/// It does not use the loop's read buffer: the later datagrams stay here while the first ones are
/// delivered.
class DatagramBatch {
public:
    static constexpr int capacity = 16;

    /// The largest UDP datagram has 65507 bytes; only Unix datagrams can be longer. A little more
    /// than 64 KiB, so that the slots do not all start in the same few cache lines.
    static constexpr std::size_t slot_size = std::size_t{64} * 1024 + std::size_t{17} * 64;
    static constexpr std::size_t whole_size = std::size_t{256} * 1024;

    struct Datagram {
        const char* data;
        std::size_t size;
        const sockaddr* sender;
        socklen_t sender_length;
    };

    /// Throws `std::bad_alloc`. The memory is mapped: pages that no datagram has reached take no
    /// memory.
    DatagramBatch();

    /// Receives up to `wanted` datagrams without waiting. Returns their number, or -1 with errno
    /// set.
    int receive(int fd, int wanted) noexcept;

    /// Receives one datagram of up to `whole_size` bytes.
    int receive_whole(int fd) noexcept;

    [[nodiscard]] Datagram operator[](int index) const noexcept;

private:
    std::unique_ptr<char[]> buffer_;
    std::array<mmsghdr, capacity> messages_{};
    std::array<iovec, capacity> chunks_{};
    std::array<sockaddr_storage, capacity> senders_;
};

} // namespace penstock::python
