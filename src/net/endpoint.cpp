#include <penstock/net/endpoint.hpp>

#include <array>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <net/if.h>

namespace penstock::net {

namespace {

/// A zone is the name or number of an interface (RFC 4007, section 11). Returns 0 if it is neither.
std::uint32_t scope_of(const std::string& zone) noexcept {
    std::uint32_t number = 0;
    const char* end = zone.data() + zone.size();
    const auto [rest, error] = std::from_chars(zone.data(), end, number);
    return error == std::errc() && rest == end ? number : if_nametoindex(zone.c_str());
}

template <typename Ask> Result<Endpoint> endpoint_from(Ask ask, int fd) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (ask(fd, address, &size) != 0) {
        return last_failure();
    }
    return Endpoint::from_native(address, size);
}

} // namespace

Endpoint::Endpoint() noexcept : storage_{} {
    storage_.v4 = sockaddr_in{};
    storage_.v4.sin_family = AF_INET;
}

Result<Endpoint> Endpoint::parse(std::string_view address, std::uint16_t port) {
    if (address.find('\0') != std::string_view::npos) {
        return failure(std::errc::invalid_argument);
    }
    Endpoint endpoint;
    const std::string text(address.substr(0, address.find('%')));
    if (text.size() == address.size() &&
        inet_pton(AF_INET, text.c_str(), &endpoint.storage_.v4.sin_addr) == 1) {
        endpoint.storage_.v4.sin_port = htons(port);
        return endpoint;
    }
    endpoint.storage_.v6 = sockaddr_in6{};
    endpoint.storage_.v6.sin6_family = AF_INET6;
    endpoint.storage_.v6.sin6_port = htons(port);
    if (inet_pton(AF_INET6, text.c_str(), &endpoint.storage_.v6.sin6_addr) != 1) {
        return failure(std::errc::invalid_argument);
    }
    if (text.size() != address.size()) {
        const std::uint32_t scope = scope_of(std::string(address.substr(text.size() + 1)));
        if (scope == 0) {
            return failure(std::errc::invalid_argument);
        }
        endpoint.storage_.v6.sin6_scope_id = scope;
    }
    return endpoint;
}

Endpoint Endpoint::any(std::uint16_t port) noexcept {
    Endpoint endpoint;
    endpoint.storage_.v4.sin_port = htons(port);
    return endpoint;
}

Endpoint Endpoint::loopback(std::uint16_t port) noexcept {
    Endpoint endpoint = any(port);
    endpoint.storage_.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return endpoint;
}

Endpoint Endpoint::any_v6(std::uint16_t port) noexcept {
    Endpoint endpoint;
    endpoint.storage_.v6 = sockaddr_in6{};
    endpoint.storage_.v6.sin6_family = AF_INET6;
    endpoint.storage_.v6.sin6_port = htons(port);
    return endpoint;
}

Endpoint Endpoint::loopback_v6(std::uint16_t port) noexcept {
    Endpoint endpoint = any_v6(port);
    endpoint.storage_.v6.sin6_addr = in6addr_loopback;
    return endpoint;
}

Result<Endpoint> Endpoint::from_native(const sockaddr* address, socklen_t size) {
    Endpoint endpoint;
    if (size >= sizeof(sockaddr_in) && address->sa_family == AF_INET) {
        std::memcpy(&endpoint.storage_.v4, address, sizeof(sockaddr_in));
    } else if (size >= sizeof(sockaddr_in6) && address->sa_family == AF_INET6) {
        std::memcpy(&endpoint.storage_.v6, address, sizeof(sockaddr_in6));
    } else {
        return failure(std::errc::address_family_not_supported);
    }
    return endpoint;
}

Result<Endpoint> Endpoint::of_socket(int fd) {
    return endpoint_from(::getsockname, fd);
}

Result<Endpoint> Endpoint::of_peer(int fd) {
    return endpoint_from(::getpeername, fd);
}

std::uint16_t Endpoint::port() const noexcept {
    return ntohs(is_v6() ? storage_.v6.sin6_port : storage_.v4.sin_port);
}

std::string Endpoint::address() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (!is_v6()) {
        inet_ntop(AF_INET, &storage_.v4.sin_addr, text.data(), text.size());
        return text.data();
    }
    inet_ntop(AF_INET6, &storage_.v6.sin6_addr, text.data(), text.size());
    std::string address = text.data();
    if (const std::uint32_t scope = storage_.v6.sin6_scope_id; scope != 0) {
        std::array<char, IF_NAMESIZE> name{};
        address += '%';
        address += if_indextoname(scope, name.data()) != nullptr ? std::string(name.data())
                                                                 : std::to_string(scope);
    }
    return address;
}

std::string Endpoint::to_string() const {
    const std::string port_text = ":" + std::to_string(port());
    return is_v6() ? "[" + address() + "]" + port_text : address() + port_text;
}

std::strong_ordering Endpoint::compare(const Endpoint& other) const noexcept {
    if (is_v6() != other.is_v6()) {
        return is_v6() <=> other.is_v6();
    }
    const int order = is_v6() ? std::memcmp(&storage_.v6.sin6_addr, &other.storage_.v6.sin6_addr,
                                            sizeof storage_.v6.sin6_addr)
                              : std::memcmp(&storage_.v4.sin_addr, &other.storage_.v4.sin_addr,
                                            sizeof storage_.v4.sin_addr);
    if (order != 0) {
        return order <=> 0;
    }
    if (port() != other.port()) {
        return port() <=> other.port();
    }
    return is_v6() ? storage_.v6.sin6_scope_id <=> other.storage_.v6.sin6_scope_id
                   : std::strong_ordering::equal;
}

} // namespace penstock::net
