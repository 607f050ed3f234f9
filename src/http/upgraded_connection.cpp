#include "http/upgraded_connection.hpp"

#include <utility>

#include <penstock/http/method.hpp>

namespace penstock::http::detail {

UpgradedConnection::UpgradedConnection(penstock::detail::AcceptLoop::Home& home,
                                       penstock::detail::AcceptLoop::Place place,
                                       ServerState& server, Origin origin) noexcept
    : Seat(home, std::move(place)), server_(server), origin_(std::move(origin)) {
    server_.upgraded.push_back(*this);
}

UpgradedConnection::~UpgradedConnection() {
    server_.upgraded.remove(*this);
    if (server_.options.metrics) {
        server_.options.metrics->connection_closed();
    }
}

void UpgradedConnection::report(std::error_code error, const std::exception_ptr& thrown) noexcept {
    if (thrown || (error && error != std::errc::operation_canceled)) {
        server_.report({.method = Method::get.name(),
                        .target = origin_.target,
                        .error = error,
                        .exception = thrown,
                        .level = level_after_upgrade(error, thrown)});
    }
}

OpenConnection UpgradedConnection::describe() const {
    return {.peer = origin_.peer,
            .since = origin_.since,
            .requests = origin_.requests,
            .state = OpenConnection::State::upgraded,
            .request = "GET " + origin_.target};
}

ServerFailure::Level level_after_upgrade(std::error_code error,
                                         const std::exception_ptr& thrown) noexcept {
    const bool by_peer = error == std::errc::connection_reset || error == std::errc::broken_pipe ||
                         error == std::errc::protocol_error;
    return by_peer && !thrown ? ServerFailure::Level::notice : ServerFailure::Level::failure;
}

} // namespace penstock::http::detail
