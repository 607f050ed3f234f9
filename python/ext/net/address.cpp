#include "net/address.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
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
    // getnameinfo and not inet_ntop: a link-local address carries its interface ("fe80::1%eth0").
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

/// Reads a number of an address tuple. -1 when it is not a number or out of range.
long number_at(PyObject* tuple, Py_ssize_t index, long limit) noexcept {
    PyObject* object = PyTuple_GET_ITEM(tuple, index);
    if (!PyLong_CheckExact(object)) {
        return -1;
    }
    int overflow = 0;
    const long value = PyLong_AsLongAndOverflow(object, &overflow);
    return overflow == 0 && value >= 0 && value <= limit ? value : -1;
}

} // namespace

socklen_t numeric_address(PyObject* object, int family, sockaddr_in6& address) noexcept {
    constexpr long largest_port = 0xffff;
    constexpr long largest_flow = 0xfffff;
    constexpr long largest_scope = 0xffffffff;
    const Py_ssize_t size = PyTuple_CheckExact(object) ? PyTuple_GET_SIZE(object) : 0;
    if (size < 2 || size > 4 || !PyUnicode_CheckExact(PyTuple_GET_ITEM(object, 0))) {
        return 0;
    }
    const long port = number_at(object, 1, largest_port);
    Py_ssize_t length = 0;
    const char* host = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(object, 0), &length);
    if (host == nullptr) {
        PyErr_Clear();
        return 0;
    }
    if (port < 0 || strlen(host) != static_cast<std::size_t>(length)) {
        return 0;
    }
    if (family == AF_INET && size == 2) {
        auto* inet = reinterpret_cast<sockaddr_in*>(&address);
        *inet = {};
        inet->sin_family = AF_INET;
        inet->sin_port = htons(static_cast<std::uint16_t>(port));
        return inet_pton(AF_INET, host, &inet->sin_addr) == 1 ? sizeof(sockaddr_in) : 0;
    }
    const long flow = size > 2 ? number_at(object, 2, largest_flow) : 0;
    const long scope = size > 3 ? number_at(object, 3, largest_scope) : 0;
    if (family != AF_INET6 || flow < 0 || scope < 0) {
        return 0;
    }
    address = {};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    address.sin6_flowinfo = htonl(static_cast<std::uint32_t>(flow));
    address.sin6_scope_id = static_cast<std::uint32_t>(scope);
    return inet_pton(AF_INET6, host, &address.sin6_addr) == 1 ? sizeof(sockaddr_in6) : 0;
}

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
