#include <penstock/net/tcp_stream.hpp>

#include <netinet/tcp.h>

namespace penstock::net {

using penstock::detail::adopt_nonblocking;
using penstock::detail::check_tcp_socket;
using penstock::detail::close_on_exec;
using penstock::detail::get_option;
using penstock::detail::open_socket;
using penstock::detail::Pollable;
using penstock::detail::set_option;

namespace {

Result<bool> get_flag(int fd, int level, int option) noexcept {
    const Result<int> value = get_option(fd, level, option);
    if (!value) {
        return failure(value.error());
    }
    return *value != 0;
}

} // namespace

TcpStream::Connect TcpStream::connect(const Endpoint& endpoint) {
    const Result<int> fd = open_socket(endpoint.native()->sa_family, SOCK_STREAM);
    if (!fd) {
        return Connect(fd.error());
    }
    std::unique_ptr<Pollable> socket = Pollable::adopt(*fd);
    if (const Result<> set = set_option(*fd, IPPROTO_TCP, TCP_NODELAY, 1); !set) {
        return Connect(set.error());
    }
    return {std::move(socket), endpoint};
}

Result<TcpStream> TcpStream::adopt(OwnedDescriptor socket) {
    if (const Result<> checked = check_tcp_socket(socket.get()); !checked) {
        return failure(checked.error());
    }
    if (const Result<Endpoint> peer = Endpoint::of_peer(socket.get()); !peer) {
        return failure(peer.error());
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
    return TcpStream(std::move(*pollable));
}

Result<Endpoint> TcpStream::local_endpoint() const {
    return Endpoint::of_socket(native_handle());
}

Result<Endpoint> TcpStream::peer_endpoint() const {
    return Endpoint::of_peer(native_handle());
}

Result<> TcpStream::no_delay(bool on) noexcept {
    return set_option(native_handle(), IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0);
}

Result<bool> TcpStream::no_delay() const noexcept {
    return get_flag(native_handle(), IPPROTO_TCP, TCP_NODELAY);
}

Result<> TcpStream::keep_alive(bool on) noexcept {
    return set_option(native_handle(), SOL_SOCKET, SO_KEEPALIVE, on ? 1 : 0);
}

Result<bool> TcpStream::keep_alive() const noexcept {
    return get_flag(native_handle(), SOL_SOCKET, SO_KEEPALIVE);
}

Result<> TcpStream::keep_alive(std::chrono::seconds idle, std::chrono::seconds interval,
                               int probes) noexcept {
    const int fd = native_handle();
    struct Option {
        int name;
        std::int64_t value;
    };
    const std::array<Option, 3> options{Option{TCP_KEEPIDLE, idle.count()},
                                        Option{TCP_KEEPINTVL, interval.count()},
                                        Option{TCP_KEEPCNT, probes}};
    for (const auto& [name, value] : options) {
        // MAX_TCP_KEEPIDLE of the kernel; the limits of the others are smaller
        if (value < 1 || value > 32767) {
            return failure(std::errc::invalid_argument);
        }
        if (const Result<> set = set_option(fd, IPPROTO_TCP, name, static_cast<int>(value)); !set) {
            return set;
        }
    }
    return keep_alive(true);
}

void TcpStream::reset() noexcept {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    (void)::setsockopt(native_handle(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
}

} // namespace penstock::net
