#include <penstock/net/tcp_listener.hpp>

#include <netinet/tcp.h>

#include <penstock/detail/io/descriptor_stream.hpp>
#include <penstock/detail/io/socket.hpp>

namespace penstock::net {

using penstock::detail::adopt_nonblocking;
using penstock::detail::check_tcp_socket;
using penstock::detail::close_on_exec;
using penstock::detail::get_option;
using penstock::detail::open_socket;
using penstock::detail::Pollable;
using penstock::detail::set_option;

namespace {

Result<> configure(int fd, const Endpoint& endpoint, const TcpListener::Options& options) noexcept {
    Result<> set = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (set && options.reuse_port) {
        set = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    if (set && endpoint.is_v6() && options.v6_only) {
        set = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    if (set) { // accepted sockets inherit it, which saves a system call each
        set = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    }
    return set;
}

} // namespace

Result<TcpListener> TcpListener::listen(const Endpoint& endpoint, const Options& options) {
    const Result<int> fd = open_socket(endpoint.native()->sa_family, SOCK_STREAM);
    if (!fd) {
        return failure(fd.error());
    }
    TcpListener listener(Pollable::adopt(*fd));
    if (const Result<> set = configure(*fd, endpoint, options); !set) {
        return failure(set.error());
    }
    if (::bind(*fd, endpoint.native(), endpoint.native_size()) != 0 ||
        ::listen(*fd, options.backlog) != 0) {
        return last_failure();
    }
    return listener;
}

Result<TcpListener> TcpListener::adopt(OwnedDescriptor socket) {
    if (const Result<> checked = check_tcp_socket(socket.get()); !checked) {
        return failure(checked.error());
    }
    const Result<int> listening = get_option(socket.get(), SOL_SOCKET, SO_ACCEPTCONN);
    if (!listening || *listening == 0) {
        return failure(listening ? make_error_code(std::errc::invalid_argument)
                                 : listening.error());
    }
    if (const Result<> set = set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1); !set) {
        return failure(set.error());
    }
    if (const Result<> set = close_on_exec(socket.get()); !set) {
        return failure(set.error());
    }
    Result<std::unique_ptr<Pollable>> pollable = adopt_nonblocking(std::move(socket));
    if (!pollable) {
        return failure(pollable.error());
    }
    return TcpListener(std::move(*pollable));
}

Result<Endpoint> TcpListener::local_endpoint() const {
    return Endpoint::of_socket(native_handle());
}

} // namespace penstock::net
