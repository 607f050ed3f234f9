#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <system_error>

#include <penstock/detail/server/seat.hpp>
#include <penstock/http/open_connection.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/result.hpp>

#include "http/server_state.hpp"

namespace penstock::http::detail {

/// What is left of a `Connection` whose stream speaks another protocol, without a task of the
/// server's: for those who watch, and its place.
class UpgradedConnection final : public penstock::detail::Seat,
                                 public io::ListHook<UpgradedConnection> {
public:
    /// Which connection it was.
    struct Origin {
        Result<net::Endpoint> peer;
        std::chrono::system_clock::time_point since;
        std::uint64_t requests;
        std::uint64_t number; ///< in the order of acceptance
        std::string target;
    };

    UpgradedConnection(penstock::detail::AcceptLoop::Home& home,
                       penstock::detail::AcceptLoop::Place place, ServerState& server,
                       Origin origin) noexcept;
    ~UpgradedConnection() override;
    UpgradedConnection(const UpgradedConnection&) = delete;
    UpgradedConnection& operator=(const UpgradedConnection&) = delete;

    void report(std::error_code error, const std::exception_ptr& thrown) noexcept override;

    [[nodiscard]] OpenConnection describe() const;
    [[nodiscard]] std::uint64_t number() const noexcept { return origin_.number; }

private:
    ServerState& server_;
    Origin origin_;
};

/// Whether an error of another protocol is the doing of a stranger.
[[nodiscard]] ServerFailure::Level level_after_upgrade(std::error_code error,
                                                       const std::exception_ptr& thrown) noexcept;

} // namespace penstock::http::detail
