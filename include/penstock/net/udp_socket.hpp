#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <penstock/detail/io/datagram_operations.hpp>
#include <penstock/detail/io/descriptor_owner.hpp>
#include <penstock/net/datagram.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::net {

/// A UDP socket. A datagram has up to 65,507 bytes. It arrives complete or not at all, in any
/// order, and possibly twice.
///
/// One task may receive while another one sends. A second receiver or sender gets
/// `device_or_resource_busy`.
///
/// Cancellation: a cancelled receive takes no datagram, and a cancelled single send sends nothing.
/// A cancelled batch send may have sent the first datagrams.
///
/// Thread safety: the socket belongs to the loop on which it first waited, and to that loop's
/// thread.
class UdpSocket : public detail::DescriptorOwner {
public:
    struct Options {
        /// Allows several sockets on the same port (SO_REUSEPORT). The kernel distributes senders
        /// over them.
        bool reuse_port = false;
        /// Several sockets receive each datagram sent to a multicast group or to the broadcast
        /// address (SO_REUSEADDR).
        bool reuse_address = false;
        /// An IPv6 socket receives no IPv4 datagrams.
        bool v6_only = false;
    };

    using Receive = detail::ReceiveDatagramOperation;
    using ReceiveBatch = detail::ReceiveBatchOperation;
    using Send = detail::SendDatagramOperation;
    using SendBatch = detail::SendBatchOperation;

    /// A closed socket.
    UdpSocket() = default;

    /// Creates a bound socket. With port 0 the kernel chooses one, which `local_endpoint` returns.
    /// Errors: those of socket(2) and bind(2), such as `address_in_use`, `address_not_available`
    /// and `permission_denied`.
    [[nodiscard]] static Result<UdpSocket> bind(const Endpoint& endpoint, const Options& options);
    [[nodiscard]] static Result<UdpSocket> bind(const Endpoint& endpoint) {
        return bind(endpoint, Options());
    }

    /// From now on receives only from `peer`, and `send` goes there. This call sends nothing. If
    /// nobody listens at `peer`, an operation after a send returns `connection_refused`. Errors:
    /// those of connect(2).
    [[nodiscard]] Result<> connect(const Endpoint& peer) noexcept;

    /// Waits for a datagram and returns its size and sender. Bytes that do not fit into `into` are
    /// lost, and `truncated` is set. An empty datagram has size 0.
    [[nodiscard]] Receive receive(MutableBytes into) noexcept { return {pollable_.get(), into}; }

    /// Waits for a datagram and receives all that have arrived, up to `batch.capacity()`, in one
    /// system call (recvmmsg(2)). Returns how many. `batch` holds them until it is used again.
    [[nodiscard]] ReceiveBatch receive(DatagramBatch& batch) noexcept {
        return {pollable_.get(), batch};
    }

    /// Sends to the connected peer. Errors: `destination_address_required` if there is none.
    [[nodiscard]] Send send(Bytes from) noexcept { return {pollable_.get(), from, std::nullopt}; }

    /// Sends to any address. Errors: `message_size` if the bytes do not fit into a datagram.
    [[nodiscard]] Send send_to(Bytes from, const Endpoint& to) noexcept {
        return {pollable_.get(), from, to};
    }

    /// Sends all datagrams, in order, in as few system calls as possible (sendmmsg(2)). Returns the
    /// error of the first datagram that could not be sent. Those before it were sent.
    [[nodiscard]] SendBatch send(std::span<const OutgoingDatagram> datagrams) noexcept {
        return {pollable_.get(), datagrams};
    }

    [[nodiscard]] Result<Endpoint> local_endpoint() const;
    [[nodiscard]] Result<Endpoint> peer_endpoint() const;

    /// Whether datagrams may go to the broadcast address (SO_BROADCAST). Off by default.
    Result<> broadcast(bool on) noexcept;

    /// Joins or leaves a multicast group on one interface (ip(7), ipv6(7)). `interface` is a name,
    /// such as `eth0`. If it is empty, the routing table selects the interface. `group` has the
    /// socket's family; its port is ignored. Errors: `no_such_device` for an unknown name, and
    /// those of setsockopt(2).
    Result<> join_multicast(const Endpoint& group, std::string_view interface = {}) noexcept;
    Result<> leave_multicast(const Endpoint& group, std::string_view interface = {}) noexcept;

    /// The interface for outgoing multicast datagrams. Errors: `no_such_device`.
    Result<> multicast_interface(std::string_view interface) noexcept;

    /// Whether group members on this machine receive what this socket sends. On by default.
    Result<> multicast_loop(bool on) noexcept;

    /// The maximum number of routers a datagram may pass: 0 to 255. The system's default is 64 for
    /// unicast and 1 for multicast.
    Result<> time_to_live(int hops) noexcept;
    Result<> multicast_time_to_live(int hops) noexcept;

    /// The size of the kernel's receive buffer, in bytes (SO_RCVBUF). The kernel doubles the value,
    /// and net.core.rmem_max limits it (socket(7)).
    Result<> receive_buffer_size(int bytes) noexcept;

private:
    UdpSocket(std::unique_ptr<detail::Pollable> pollable, bool is_v6) noexcept
        : DescriptorOwner(std::move(pollable)), is_v6_(is_v6) {}

    [[nodiscard]] Result<> change_membership(const Endpoint& group, std::string_view interface,
                                             bool join) noexcept;

    bool is_v6_ = false;
};

} // namespace penstock::net
