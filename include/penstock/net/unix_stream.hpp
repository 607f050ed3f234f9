#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <penstock/detail/connect_operation.hpp>
#include <penstock/detail/descriptor_passing.hpp>
#include <penstock/net/stream_socket.hpp>
#include <penstock/net/unix_endpoint.hpp>
#include <penstock/owned_descriptor.hpp>

namespace penstock::net {

/// Who is at the other end of a Unix socket, as it was when the connection was made (SO_PEERCRED,
/// unix(7)).
struct PeerCredentials {
    pid_t process = 0; ///< 0 when it is of another process namespace
    uid_t user = 0;
    gid_t group = 0;
};

/// A connection between processes of this machine; may carry open descriptors beside its bytes.
class UnixStream : public StreamSocket {
public:
    using Connect = detail::ConnectOperation<UnixStream, UnixEndpoint>;
    using Send = detail::SendWithDescriptorsOperation;
    using ReceiveMessage = detail::ReceiveWithDescriptorsOperation;

    /// A closed stream.
    UnixStream() = default;

    /// Takes over a connected, non-blocking socket.
    explicit UnixStream(std::unique_ptr<detail::Pollable> socket) noexcept
        : StreamSocket(std::move(socket)) {}

    /// Errors: `no_such_file_or_directory`, `connection_refused` (nobody listens there any more),
    /// `permission_denied`, and `resource_unavailable_try_again` when the listener's backlog is full,
    /// which a Unix socket does not wait for.
    [[nodiscard]] static Connect connect(const UnixEndpoint& endpoint);

    /// Two streams that are connected to each other (socketpair(2)).
    [[nodiscard]] static Result<std::pair<UnixStream, UnixStream>> pair();

    [[nodiscard]] Result<UnixEndpoint> local_endpoint() const;
    [[nodiscard]] Result<UnixEndpoint> peer_endpoint() const;
    [[nodiscard]] Result<PeerCredentials> peer_credentials() const noexcept;

    /// Sends bytes, at least one, and with the first of them copies of open descriptors, at most 253
    /// (SCM_RIGHTS). Yields how many bytes were taken; when that is less than all, the descriptors have
    /// gone with them, and `write_all` sends the rest. `invalid_argument` for no bytes or too many
    /// descriptors. The caller's descriptors stay open, and must until this has ended. A cancelled send
    /// has sent nothing.
    [[nodiscard]] Send send(Bytes from, std::span<const int> descriptors) noexcept {
        return {pollable_.get(), from, descriptors};
    }

    /// Reads like `read`, and adds the descriptors that came with the bytes to `descriptors`. One call
    /// never crosses the border between two sends with descriptors. They are closed on exec. Those that
    /// a full process has no room for are lost, while the bytes are not: an empty descriptor behind the
    /// others stands for them. A cancelled receive has taken nothing.
    [[nodiscard]] ReceiveMessage receive(MutableBytes into,
                                         std::vector<OwnedDescriptor>& descriptors) noexcept {
        return {pollable_.get(), into, descriptors};
    }
    using StreamSocket::receive;
};

} // namespace penstock::net
