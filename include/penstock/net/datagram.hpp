#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <sys/socket.h>

#include <penstock/bytes.hpp>
#include <penstock/net/endpoint.hpp>

namespace penstock::net {

/// What `UdpSocket::receive` tells of a datagram.
struct ReceivedDatagram {
    std::size_t size = 0; ///< bytes that are in the buffer
    Endpoint sender{};
    bool truncated = false; ///< the datagram was larger than the buffer
};

/// A datagram to be sent; the bytes must live until it has been. Without `to` it goes to the socket's
/// connected peer.
struct OutgoingDatagram {
    Bytes bytes{};
    std::optional<Endpoint> to{};
};

/// Room for datagrams that are received together, allocated once and used again and again.
class DatagramBatch {
public:
    /// Room for `capacity` datagrams (at least one, at most 1024, the kernel's own limit) of at most
    /// `datagram_size` bytes each (1 to 65,536). Throws `std::invalid_argument`, `std::bad_alloc`.
    DatagramBatch(std::size_t capacity, std::size_t datagram_size);
    ~DatagramBatch();
    DatagramBatch(DatagramBatch&& other) noexcept;
    DatagramBatch& operator=(DatagramBatch&& other) noexcept;
    DatagramBatch(const DatagramBatch&) = delete;
    DatagramBatch& operator=(const DatagramBatch&) = delete;

    [[nodiscard]] std::size_t capacity() const noexcept;

    /// How many the last receive brought.
    [[nodiscard]] std::size_t size() const noexcept;

    struct Received {
        MutableBytes bytes{}; ///< in the batch's memory
        Endpoint sender{};
        bool truncated = false;
    };

    /// The one at `index`, below `size()`.
    [[nodiscard]] Received operator[](std::size_t index) const noexcept;

    /// For the operation: recvmmsg(2) into this batch; the count, or -1 with `errno`.
    [[nodiscard]] int receive_from(int fd) noexcept;

private:
    struct Room;
    std::unique_ptr<Room> room_;
};

} // namespace penstock::net
