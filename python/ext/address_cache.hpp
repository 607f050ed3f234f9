#pragma once

#include "py_ref.hpp"

#include <array>
#include <cstddef>

#include <netinet/in.h>

namespace penstock::python {

/// The Python objects of IP addresses that were seen lately: a server hears from the same peers again
/// and again, and to make an address tuple costs more than all else it does for a datagram.
class AddressCache {
public:
    /// The address as the socket module shows it; null with an exception set.
    Ref to_python(const sockaddr* address, socklen_t length) noexcept;

    /// The address that `object` was made from, when `to_python` gave it out last; else null.
    /// A reply goes where the datagram came from.
    [[nodiscard]] const sockaddr_in6* latest(PyObject* object, socklen_t& length) const noexcept;

private:
    struct Entry {
        sockaddr_in6 address{}; ///< big enough for IPv4 and IPv6
        socklen_t length = 0;
        Ref object;
    };

    /// 24 KiB: where 32 peers talk at once, hardly two of them share a place.
    static constexpr std::size_t size = 512;

    std::array<Entry, size> entries_;
    const Entry* latest_ = nullptr;
};

} // namespace penstock::python
