#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <penstock/net/endpoint.hpp>
#include <penstock/result.hpp>

namespace penstock::http {

/// A connection of a server, as it was when it was asked for.
struct OpenConnection {
    enum class State : std::uint8_t {
        idle,     ///< waits for a request
        head,     ///< receives the head of one
        handling, ///< its handler runs, or its response is sent
        upgraded, ///< speaks another protocol
    };

    /// The client. Errors: as `Request::peer_endpoint`.
    Result<net::Endpoint> peer;
    std::chrono::system_clock::time_point since; ///< when it was accepted
    std::uint64_t requests = 0;                  ///< whole heads that it has sent
    State state = State::idle;
    std::string request{}; ///< "GET /path" while it is handled, and after an upgrade
};

} // namespace penstock::http
