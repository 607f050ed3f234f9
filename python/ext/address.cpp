#include "address.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace penstock::python {

namespace {

PyObject* inet_to_python(const sockaddr* address) noexcept {
    const auto* inet = reinterpret_cast<const sockaddr_in*>(address);
    std::array<char, INET_ADDRSTRLEN> host{};
    inet_ntop(AF_INET, &inet->sin_addr, host.data(), host.size());
    return Py_BuildValue("(si)", host.data(), static_cast<int>(ntohs(inet->sin_port)));
}

PyObject* inet6_to_python(const sockaddr* address) noexcept {
    const auto* inet6 = reinterpret_cast<const sockaddr_in6*>(address);
    std::array<char, NI_MAXHOST> host{};
    // getnameinfo, not inet_ntop: a link-local address carries its interface ("fe80::1%eth0").
    if (getnameinfo(address, sizeof(sockaddr_in6), host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
        inet_ntop(AF_INET6, &inet6->sin6_addr, host.data(), host.size());
    }
    return Py_BuildValue("(siII)", host.data(), static_cast<int>(ntohs(inet6->sin6_port)),
                         static_cast<unsigned>(ntohl(inet6->sin6_flowinfo)),
                         static_cast<unsigned>(inet6->sin6_scope_id));
}

PyObject* unix_to_python(const sockaddr* address, socklen_t length) noexcept {
    const auto* local = reinterpret_cast<const sockaddr_un*>(address);
    constexpr auto path_offset = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path));
    const socklen_t path_length = length > path_offset ? length - path_offset : 0;
    if (path_length > 0 && local->sun_path[0] == '\0') {
        return PyBytes_FromStringAndSize(local->sun_path, path_length);
    }
    return PyUnicode_DecodeFSDefaultAndSize(
        local->sun_path, static_cast<Py_ssize_t>(strnlen(local->sun_path, path_length)));
}

} // namespace

PyObject* address_to_python(const sockaddr* address, socklen_t length) noexcept {
    switch (length >= sizeof(sa_family_t) ? address->sa_family : AF_UNSPEC) {
    case AF_INET:
        return inet_to_python(address);
    case AF_INET6:
        return inet6_to_python(address);
    case AF_UNIX:
        return unix_to_python(address, length);
    default:
        Py_RETURN_NONE;
    }
}

} // namespace penstock::python
