#include "net/address_cache.hpp"

#include "net/address.hpp"

#include <cstdint>
#include <cstring>

namespace penstock::python {

namespace {

constexpr unsigned hash_bits = 9;

std::size_t slot_of(const sockaddr* address, socklen_t length) noexcept {
    // The last four bytes of the host: the part of IPv6 addresses that differs most.
    std::uint32_t host = 0;
    in_port_t port = 0;
    if (length == sizeof(sockaddr_in)) {
        const auto* inet = reinterpret_cast<const sockaddr_in*>(address);
        host = inet->sin_addr.s_addr;
        port = inet->sin_port;
    } else {
        const auto* inet6 = reinterpret_cast<const sockaddr_in6*>(address);
        std::memcpy(&host, &inet6->sin6_addr.s6_addr[12], sizeof host);
        port = inet6->sin6_port;
    }
    const std::uint32_t mixed = (host ^ (std::uint32_t{port} << 8)) * 0x9e3779b1U;
    return mixed >> (32 - hash_bits);
}

} // namespace

Ref AddressCache::to_python(const sockaddr* address, socklen_t length) noexcept {
    latest_ = nullptr;
    const bool internet = (length == sizeof(sockaddr_in) && address->sa_family == AF_INET) ||
                          (length == sizeof(sockaddr_in6) && address->sa_family == AF_INET6);
    if (!internet) {
        return Ref(address_to_python(address, length));
    }
    static_assert(size == 1U << hash_bits, "slot_of() returns numbers below it");
    Entry& entry = entries_[slot_of(address, length)];
    if (entry.length != length || std::memcmp(&entry.address, address, length) != 0) {
        Ref object(address_to_python(address, length));
        if (!object) {
            return object;
        }
        std::memcpy(&entry.address, address, length);
        entry.length = length;
        entry.object = std::move(object);
    }
    latest_ = &entry;
    return Ref::borrow(entry.object.get());
}

const sockaddr_in6* AddressCache::latest(PyObject* object, socklen_t& length) const noexcept {
    if (latest_ == nullptr || latest_->object.get() != object) {
        return nullptr;
    }
    length = latest_->length;
    return &latest_->address;
}

} // namespace penstock::python
