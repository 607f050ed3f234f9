#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <penstock/bytes.hpp>
#include <penstock/detail/datagram_operations.hpp>
#include <penstock/detail/descriptor_stream.hpp>
#include <penstock/net/datagram.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/result.hpp>

namespace penstock::net {

/// A UDP socket: datagrams of up to 65,507 bytes, each of which arrives whole, or not at all; in any
/// order; and maybe twice.
///
/// One task may receive while another one sends, both on the thread of the loop on which the socket
/// first had to wait. A cancelled receive has taken nothing, a cancelled
/// send has sent nothing; a cancelled `send_batch` may have sent the first ones.
class UdpSocket : public detail::DescriptorOwner {
public:
    struct Options {
        /// Several sockets on the same port (SO_REUSEPORT); the kernel spreads senders over them.
        bool reuse_port = false;
        /// Several sockets get each datagram to a multicast group, or to the broadcast address
        /// (SO_REUSEADDR).
        bool reuse_address = false;
        /// An IPv6 socket that takes no IPv4 datagrams.
        bool v6_only = false;
    };

    using Receive = detail::ReceiveDatagramOperation;
    using ReceiveBatch = detail::ReceiveBatchOperation;
    using Send = detail::SendDatagramOperation;
    using SendBatch = detail::SendBatchOperation;

    /// A closed socket.
    UdpSocket() = default;

    /// Bound to an address; port 0 lets the kernel choose. Errors: `address_in_use`,
    /// `address_not_available`, `permission_denied`.
    [[nodiscard]] static Result<UdpSocket> bind(const Endpoint& endpoint, const Options& options);
    [[nodiscard]] static Result<UdpSocket> bind(const Endpoint& endpoint) {
        return bind(endpoint, Options());
    }

    /// Takes and sends only from and to `peer` from now on, and is told when it does not listen
    /// (`connection_refused`, by the next operation). Nothing is sent for this.
    [[nodiscard]] Result<> connect(const Endpoint& peer) noexcept;

    /// Waits for a datagram and yields its size and sender. What does not fit into `into` is lost, and
    /// `truncated` says so. An empty datagram is one too.
    [[nodiscard]] Receive receive(MutableBytes into) noexcept { return {pollable_.get(), into}; }

    /// Waits for a datagram, takes what else has arrived, at most `batch.capacity()`, in one system
    /// call, and yields how many (recvmmsg(2)). `batch` then holds them, until it is used again.
    [[nodiscard]] ReceiveBatch receive(DatagramBatch& batch) noexcept {
        return {pollable_.get(), batch};
    }

    /// Sends to a connected socket's peer; `destination_address_required` without one.
    [[nodiscard]] Send send(Bytes from) noexcept { return {pollable_.get(), from, std::nullopt}; }

    /// Sends to anybody. `message_size` when it is larger than a datagram.
    [[nodiscard]] Send send_to(Bytes from, const Endpoint& to) noexcept {
        return {pollable_.get(), from, to};
    }

    /// Sends all datagrams, in order, in as few system calls as can be (sendmmsg(2)). An error is the
    /// first one's that could not be sent; those before it have been.
    [[nodiscard]] SendBatch send(std::span<const OutgoingDatagram> datagrams) noexcept {
        return {pollable_.get(), datagrams};
    }

    [[nodiscard]] Result<Endpoint> local_endpoint() const;
    [[nodiscard]] Result<Endpoint> peer_endpoint() const;

    /// Whether datagrams may go to the broadcast address (SO_BROADCAST). Off from the start.
    Result<> broadcast(bool on) noexcept;

    /// Takes datagrams that are sent to a multicast group, arriving at one interface, or at the one
    /// that the routes choose (ip(7), ipv6(7)). `group` is of the socket's family; its port does not
    /// matter. `interface` is a name: `eth0`.
    Result<> join_multicast(const Endpoint& group, std::string_view interface = {}) noexcept;
    Result<> leave_multicast(const Endpoint& group, std::string_view interface = {}) noexcept;

    /// Where datagrams to a group leave. Errors: `no_such_device`.
    Result<> multicast_interface(std::string_view interface) noexcept;

    /// Whether this machine's own members of a group get what is sent here. On from the start.
    Result<> multicast_loop(bool on) noexcept;

    /// How many routers a datagram may pass: 0 to 255. The system's default for one receiver is 64, for
    /// a multicast group 1.
    Result<> time_to_live(int hops) noexcept;
    Result<> multicast_time_to_live(int hops) noexcept;

    /// How much the kernel keeps for a reader that is late, in bytes (SO_RCVBUF; socket(7): it doubles
    /// the value, and net.core.rmem_max limits it).
    Result<> receive_buffer_size(int bytes) noexcept;

private:
    UdpSocket(std::unique_ptr<detail::Pollable> pollable, bool is_v6) noexcept
        : DescriptorOwner(std::move(pollable)), is_v6_(is_v6) {}

    [[nodiscard]] Result<> change_membership(const Endpoint& group, std::string_view interface,
                                             bool join) noexcept;

    bool is_v6_ = false;
};

} // namespace penstock::net
