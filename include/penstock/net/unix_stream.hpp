#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <penstock/detail/io/connect_operation.hpp>
#include <penstock/detail/io/descriptor_passing.hpp>
#include <penstock/net/stream_socket.hpp>
#include <penstock/net/unix_endpoint.hpp>
#include <penstock/owned_descriptor.hpp>

namespace penstock::net {

/// The peer of a Unix socket at the time of connecting (SO_PEERCRED, unix(7)).
struct PeerCredentials {
    pid_t process = 0; ///< 0 if it is in another process namespace
    uid_t user = 0;
    gid_t group = 0;
};

/// A connection between processes of this machine. It can also pass open descriptors.
class UnixStream : public StreamSocket {
public:
    using Connect = detail::ConnectOperation<UnixStream, UnixEndpoint>;
    using Send = detail::SendWithDescriptorsOperation;
    using ReceiveMessage = detail::ReceiveWithDescriptorsOperation;

    /// A closed stream.
    UnixStream() = default;

    /// Takes ownership of a connected, non-blocking socket.
    explicit UnixStream(std::unique_ptr<detail::Pollable> socket) noexcept
        : StreamSocket(std::move(socket)) {}

    /// Connects to a listener. Errors: `no_such_file_or_directory`, `connection_refused` (nobody
    /// listens any more), `permission_denied`, and `resource_unavailable_try_again` if the
    /// listener's backlog is full: a non-blocking Unix socket does not wait for a free place in it
    /// (unix(7)).
    [[nodiscard]] static Connect connect(const UnixEndpoint& endpoint);

    /// Two connected streams (socketpair(2)).
    [[nodiscard]] static Result<std::pair<UnixStream, UnixStream>> pair();

    [[nodiscard]] Result<UnixEndpoint> local_endpoint() const;
    [[nodiscard]] Result<UnixEndpoint> peer_endpoint() const;
    [[nodiscard]] Result<PeerCredentials> peer_credentials() const noexcept;

    /// Sends at least one byte, together with copies of up to 253 open descriptors (SCM_RIGHTS).
    /// Returns the number of bytes sent. If that is less than all, the descriptors were sent with
    /// them, and `write_all` can send the rest. The caller's descriptors must stay open until the
    /// operation has ended, and remain the caller's.
    ///
    /// Errors: `invalid_argument` for no bytes or too many descriptors. A cancelled send has sent
    /// nothing.
    [[nodiscard]] Send send(Bytes from, std::span<const int> descriptors) noexcept {
        return {pollable_.get(), from, descriptors};
    }

    /// Reads as `read` does, and appends the received descriptors to `descriptors`, close-on-exec.
    /// One call never reads across two sends that carry descriptors. If the process cannot open all
    /// of them (RLIMIT_NOFILE), the rest are lost, and one empty descriptor is appended in their
    /// place. No bytes are lost. A cancelled receive takes nothing.
    [[nodiscard]] ReceiveMessage receive(MutableBytes into,
                                         std::vector<OwnedDescriptor>& descriptors) noexcept {
        return {pollable_.get(), into, descriptors};
    }
    using StreamSocket::receive;
};

} // namespace penstock::net
