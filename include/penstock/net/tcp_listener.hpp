#pragma once

#include <memory>

#include <penstock/detail/io/accept_operation.hpp>
#include <penstock/detail/io/descriptor_owner.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>

namespace penstock::net {

/// A listening TCP socket. One task at a time may accept. A second one gets
/// `device_or_resource_busy`.
///
/// Thread safety: the listener belongs to the loop on which it first waited, and to that loop's
/// thread.
class TcpListener : public detail::DescriptorOwner {
public:
    struct Options {
        /// How many connections may wait to be accepted. The kernel's limit is
        /// /proc/sys/net/core/somaxconn.
        int backlog = 4096;
        /// Allows several listeners on the same port, in any processes of one user. The kernel
        /// distributes new connections over them (SO_REUSEPORT, socket(7)).
        bool reuse_port = false;
        /// An IPv6 listener accepts no IPv4 connections.
        bool v6_only = false;
    };

    using Accept = detail::AcceptOperation<TcpStream>;

    /// A closed listener.
    TcpListener() = default;

    /// Binds and listens. With port 0 the kernel chooses one, which `local_endpoint` returns. The
    /// port of a server that has just ended can be bound again (SO_REUSEADDR). Errors:
    /// `address_in_use`, `permission_denied`, and the others of socket(2), bind(2) and listen(2).
    [[nodiscard]] static Result<TcpListener> listen(const Endpoint& endpoint,
                                                    const Options& options);
    [[nodiscard]] static Result<TcpListener> listen(const Endpoint& endpoint) {
        return listen(endpoint, Options());
    }

    /// Takes ownership of a listening TCP socket, such as one that systemd passes to a service
    /// (sd_listen_fds(3): descriptors from 3 on, as many as LISTEN_FDS says). Makes it
    /// non-blocking, for every user of the open file description, and turns `no_delay` on for what
    /// it accepts. Child processes do not inherit it (close-on-exec), unless it is a standard
    /// stream. Errors: `bad_file_descriptor`, `not_a_socket`, `wrong_protocol_type` if it is not a
    /// TCP socket, and `invalid_argument` if it does not listen. The descriptor is closed after an
    /// error.
    [[nodiscard]] static Result<TcpListener> adopt(OwnedDescriptor socket);

    /// Waits for a connection. Skips connections that ended before they were accepted.
    ///
    /// Errors: those of accept(2). After `too_many_files_open`, `too_many_files_open_in_system`,
    /// `no_buffer_space` or `not_enough_memory` the connection stays in the queue, and a retry at
    /// once fails again: sleep first.
    ///
    /// Cancellation: a cancelled accept takes no connection.
    [[nodiscard]] Accept accept() noexcept { return Accept(pollable_.get()); }

    [[nodiscard]] Result<Endpoint> local_endpoint() const;

private:
    explicit TcpListener(std::unique_ptr<detail::Pollable> pollable) noexcept
        : DescriptorOwner(std::move(pollable)) {}
};

} // namespace penstock::net
