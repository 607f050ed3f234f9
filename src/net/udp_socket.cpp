#include <penstock/net/udp_socket.hpp>

#include <algorithm>
#include <string>

#include <net/if.h>
#include <netinet/in.h>

#include <penstock/detail/io/socket.hpp>

namespace penstock::net {

using penstock::detail::open_socket;
using penstock::detail::Pollable;
using penstock::detail::set_option;

namespace {

Result<> configure(int fd, const Endpoint& endpoint, const UdpSocket::Options& options) noexcept {
    Result<> set;
    if (options.reuse_address) {
        set = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    if (set && options.reuse_port) {
        set = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    if (set && endpoint.is_v6()) {
        set = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, options.v6_only ? 1 : 0);
    }
    return set;
}

/// The index of an interface. 0 without a name: the routing table then decides.
Result<int> index_of(std::string_view interface) noexcept {
    if (interface.empty()) {
        return 0;
    }
    const std::string name(interface.substr(0, IF_NAMESIZE));
    const unsigned index = if_nametoindex(name.c_str());
    if (index == 0) {
        return last_failure();
    }
    return static_cast<int>(index);
}

} // namespace

Result<UdpSocket> UdpSocket::bind(const Endpoint& endpoint, const Options& options) {
    const Result<int> fd = open_socket(endpoint.native()->sa_family, SOCK_DGRAM);
    if (!fd) {
        return failure(fd.error());
    }
    UdpSocket socket(Pollable::adopt(*fd), endpoint.is_v6());
    if (const Result<> set = configure(*fd, endpoint, options); !set) {
        return failure(set.error());
    }
    if (::bind(*fd, endpoint.native(), endpoint.native_size()) != 0) {
        return last_failure();
    }
    return socket;
}

Result<> UdpSocket::connect(const Endpoint& peer) noexcept {
    const int fd = native_handle();
    if (fd < 0) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (::connect(fd, peer.native(), peer.native_size()) != 0) {
        return last_failure();
    }
    return {};
}

Result<Endpoint> UdpSocket::local_endpoint() const {
    return Endpoint::of_socket(native_handle());
}

Result<Endpoint> UdpSocket::peer_endpoint() const {
    return Endpoint::of_peer(native_handle());
}

Result<> UdpSocket::broadcast(bool on) noexcept {
    return set_option(native_handle(), SOL_SOCKET, SO_BROADCAST, on ? 1 : 0);
}

Result<> UdpSocket::join_multicast(const Endpoint& group, std::string_view interface) noexcept {
    return change_membership(group, interface, true);
}

Result<> UdpSocket::leave_multicast(const Endpoint& group, std::string_view interface) noexcept {
    return change_membership(group, interface, false);
}

Result<> UdpSocket::change_membership(const Endpoint& group, std::string_view interface,
                                      bool join) noexcept {
    const Result<int> index = index_of(interface);
    if (!index) {
        return failure(index.error());
    }
    // Works for both families (RFC 3678).
    group_req request{};
    request.gr_interface = static_cast<std::uint32_t>(*index);
    auto* address = reinterpret_cast<std::byte*>(&request.gr_group);
    const auto* from = reinterpret_cast<const std::byte*>(group.native());
    std::copy(from, from + group.native_size(), address);
    const int level = group.is_v6() ? IPPROTO_IPV6 : IPPROTO_IP;
    if (::setsockopt(native_handle(), level, join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &request,
                     sizeof request) != 0) {
        return last_failure();
    }
    return {};
}

Result<> UdpSocket::multicast_interface(std::string_view interface) noexcept {
    const Result<int> index = index_of(interface);
    if (!index) {
        return failure(index.error());
    }
    if (is_v6_) {
        return set_option(native_handle(), IPPROTO_IPV6, IPV6_MULTICAST_IF, *index);
    }
    ip_mreqn request{};
    request.imr_ifindex = *index;
    if (::setsockopt(native_handle(), IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request) != 0) {
        return last_failure();
    }
    return {};
}

Result<> UdpSocket::multicast_loop(bool on) noexcept {
    return is_v6_ ? set_option(native_handle(), IPPROTO_IPV6, IPV6_MULTICAST_LOOP, on ? 1 : 0)
                  : set_option(native_handle(), IPPROTO_IP, IP_MULTICAST_LOOP, on ? 1 : 0);
}

Result<> UdpSocket::time_to_live(int hops) noexcept {
    return is_v6_ ? set_option(native_handle(), IPPROTO_IPV6, IPV6_UNICAST_HOPS, hops)
                  : set_option(native_handle(), IPPROTO_IP, IP_TTL, hops);
}

Result<> UdpSocket::multicast_time_to_live(int hops) noexcept {
    return is_v6_ ? set_option(native_handle(), IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops)
                  : set_option(native_handle(), IPPROTO_IP, IP_MULTICAST_TTL, hops);
}

Result<> UdpSocket::receive_buffer_size(int bytes) noexcept {
    return set_option(native_handle(), SOL_SOCKET, SO_RCVBUF, bytes);
}

} // namespace penstock::net
