#pragma once

#include "shared/py_ref.hpp"

#include <array>
#include <cstddef>

#include <netinet/in.h>

namespace penstock::python {

/// Caches the Python objects of IP addresses. A server receives from the same peers repeatedly, and
/// making an address tuple costs more than all other work for a datagram.
class AddressCache {
public:
    /// The address in the socket module's form. Null with an exception set.
    Ref to_python(const sockaddr* address, socklen_t length) noexcept;

    /// The address that `object` was made from, if `to_python` returned that object last, else
    /// null. A reply goes to the sender of the datagram.
    [[nodiscard]] const sockaddr_in6* latest(PyObject* object, socklen_t& length) const noexcept;

private:
    struct Entry {
        sockaddr_in6 address{}; ///< large enough for IPv4 and IPv6
        socklen_t length = 0;
        Ref object;
    };

    /// 24 KiB. With 32 peers at once, entries are rarely shared.
    static constexpr std::size_t size = 512;

    std::array<Entry, size> entries_;
    const Entry* latest_ = nullptr;
};

} // namespace penstock::python
