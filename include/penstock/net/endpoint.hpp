#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include <netinet/in.h>
#include <sys/socket.h>

#include <penstock/result.hpp>

namespace penstock::net {

/// An IPv4 or IPv6 address with a port.
class Endpoint {
public:
    /// 0.0.0.0, port 0.
    Endpoint() noexcept;

    /// Parses a numeric address (`127.0.0.1`, `::1`, `fe80::1%eth0`; inet_pton(3), RFC 4007 for the
    /// zone). Returns `invalid_argument` for anything else, such as a host name.
    [[nodiscard]] static Result<Endpoint> parse(std::string_view address, std::uint16_t port);

    /// 127.0.0.1 and ::1.
    [[nodiscard]] static Endpoint loopback(std::uint16_t port) noexcept;
    [[nodiscard]] static Endpoint loopback_v6(std::uint16_t port) noexcept;

    /// All addresses of this machine: 0.0.0.0, or ::, which also accepts IPv4 if the system says so
    /// (ipv6(7), bindv6only).
    [[nodiscard]] static Endpoint any(std::uint16_t port) noexcept;
    [[nodiscard]] static Endpoint any_v6(std::uint16_t port) noexcept;

    /// From the kernel's form. Returns `address_family_not_supported` for other families.
    [[nodiscard]] static Result<Endpoint> from_native(const sockaddr* address, socklen_t size);

    /// The local and the remote address of a socket: getsockname(2), getpeername(2).
    [[nodiscard]] static Result<Endpoint> of_socket(int fd);
    [[nodiscard]] static Result<Endpoint> of_peer(int fd);

    [[nodiscard]] bool is_v6() const noexcept { return storage_.any.sa_family == AF_INET6; }
    [[nodiscard]] std::uint16_t port() const noexcept;

    /// The address without the port, with its zone if it has one.
    [[nodiscard]] std::string address() const;

    /// `127.0.0.1:80`, `[::1]:80`.
    [[nodiscard]] std::string to_string() const;

    [[nodiscard]] const sockaddr* native() const noexcept { return &storage_.any; }
    [[nodiscard]] socklen_t native_size() const noexcept {
        return is_v6() ? sizeof storage_.v6 : sizeof storage_.v4;
    }

    /// Orders by family, address, port and zone.
    [[nodiscard]] friend std::strong_ordering operator<=>(const Endpoint& left,
                                                          const Endpoint& right) noexcept {
        return left.compare(right);
    }
    [[nodiscard]] friend bool operator==(const Endpoint& left, const Endpoint& right) noexcept {
        return left.compare(right) == std::strong_ordering::equal;
    }

private:
    [[nodiscard]] std::strong_ordering compare(const Endpoint& other) const noexcept;

    union {
        sockaddr any;
        sockaddr_in v4;
        sockaddr_in6 v6;
    } storage_;
};

} // namespace penstock::net
