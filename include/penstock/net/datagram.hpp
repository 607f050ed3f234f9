#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <sys/socket.h>

#include <penstock/net/endpoint.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::net {

/// A datagram as `UdpSocket::receive` reports it.
struct ReceivedDatagram {
    std::size_t size = 0; ///< bytes in the buffer
    Endpoint sender{};
    bool truncated = false; ///< the datagram was larger than the buffer
};

/// A datagram to send. The bytes must live until the send has ended. Without `to`, the datagram
/// goes to the socket's connected peer.
struct OutgoingDatagram {
    Bytes bytes{};
    std::optional<Endpoint> to{};
};

/// Buffers for datagrams that are received in one system call. Allocated once and reused. Not
/// thread safe.
class DatagramBatch {
public:
    /// Allocates room for `capacity` datagrams (1 to 1024, the kernel's limit) of up to
    /// `datagram_size` bytes each (1 to 65,536). Throws `std::invalid_argument`, `std::bad_alloc`.
    DatagramBatch(std::size_t capacity, std::size_t datagram_size);
    ~DatagramBatch();
    DatagramBatch(DatagramBatch&& other) noexcept;
    DatagramBatch& operator=(DatagramBatch&& other) noexcept;
    DatagramBatch(const DatagramBatch&) = delete;
    DatagramBatch& operator=(const DatagramBatch&) = delete;

    /// How many datagrams fit. 0 for a moved-from batch: a receive into that returns
    /// `invalid_argument`.
    [[nodiscard]] std::size_t capacity() const noexcept;

    /// The number of datagrams of the last receive.
    [[nodiscard]] std::size_t size() const noexcept;

    struct Received {
        MutableBytes bytes{}; ///< in the memory of the batch
        Endpoint sender{};
        bool truncated = false;
    };

    /// The datagram at `index`, which must be less than `size()`.
    [[nodiscard]] Received operator[](std::size_t index) const noexcept;

    /// For the operation: recvmmsg(2) into this batch. Returns the count, or -1 and `errno`.
    [[nodiscard]] int receive_from(int fd) noexcept;

private:
    struct Room;
    std::unique_ptr<Room> room_;
};

} // namespace penstock::net
