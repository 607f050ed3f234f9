#pragma once

#include <cerrno>
#include <cstdint>

namespace penstock::io {

/// What a server does after an error of accept(2). The event loop of Python and the servers in C++
/// share this table.
enum class AcceptError : std::uint8_t {
    of_connection, ///< of one that has ended already: accept the next one, and say nothing
    of_resources,  ///< descriptors or memory are lacking, or are denied for now: pause, and report
    of_listener,   ///< waiting does not mend it
};

[[nodiscard]] constexpr AcceptError kind_of_accept_error(int error) noexcept {
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    // Errors that the network has reported for the new connection; accept(2) advises to go on.
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return AcceptError::of_connection;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EPERM: // a rule of the firewall or of a security module, which may change
        return AcceptError::of_resources;
    default:
        return AcceptError::of_listener;
    }
}

} // namespace penstock::io
