#include <penstock/net/unix_stream.hpp>

#include <array>

namespace penstock::net {

using penstock::detail::open_socket;
using penstock::detail::Pollable;

namespace {

template <typename Get> Result<UnixEndpoint> endpoint_from(Get get, int fd) {
    sockaddr_un address{};
    socklen_t size = sizeof address;
    if (get(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        return last_failure();
    }
    return UnixEndpoint::from_native(reinterpret_cast<const sockaddr*>(&address), size);
}

} // namespace

UnixStream::Connect UnixStream::connect(const UnixEndpoint& endpoint) {
    const Result<int> fd = open_socket(AF_UNIX, SOCK_STREAM);
    if (!fd) {
        return Connect(fd.error());
    }
    return {Pollable::adopt(*fd), endpoint};
}

Result<std::pair<UnixStream, UnixStream>> UnixStream::pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return last_failure();
    }
    OwnedDescriptor second(ends[1]); // `adopt` may throw
    UnixStream first(Pollable::adopt(ends[0]));
    return std::pair(std::move(first), UnixStream(Pollable::adopt(second.release())));
}

Result<UnixEndpoint> UnixStream::local_endpoint() const {
    return endpoint_from(::getsockname, native_handle());
}

Result<UnixEndpoint> UnixStream::peer_endpoint() const {
    return endpoint_from(::getpeername, native_handle());
}

Result<PeerCredentials> UnixStream::peer_credentials() const noexcept {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        return last_failure();
    }
    return PeerCredentials{
        .process = credentials.pid, .user = credentials.uid, .group = credentials.gid};
}

} // namespace penstock::net
