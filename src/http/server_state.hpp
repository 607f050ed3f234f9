#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include <penstock/codec/http/limits.hpp>
#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/http/detail/router.hpp>
#include <penstock/http/metrics.hpp>
#include <penstock/http/server_options.hpp>
#include <penstock/io/intrusive_list.hpp>

namespace penstock::http::detail {

class Connection; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
class UpgradedConnection;

/// What the connections of a server share.
struct ServerState final : penstock::detail::AcceptLoop::Reporter {
    explicit ServerState(ServerOptions settings);
    ServerState(const ServerState&) = delete;
    ServerState& operator=(const ServerState&) = delete;
    ~ServerState() = default;

    /// Passes a failure to the hook, or writes it to standard error.
    void report(const ServerFailure& failure) const noexcept;
    void cannot_accept(std::error_code error) noexcept override { report({.error = error}); }
    void handle(const std::exception_ptr& exception) noexcept override {
        report({.exception = exception});
    }

    ServerOptions options;
    codec::http::Limits codec_limits;
    std::string server_line; ///< "Server: name\r\n", or empty
    Router router;
    bool upgrades = false;              ///< a route has an upgrade
    Metrics::Route* unrouted = nullptr; ///< requests without a route, if they are counted
    io::IntrusiveList<Connection> open;
    io::IntrusiveList<UpgradedConnection> upgraded; ///< that no `Connection` serves any more
    std::uint64_t accepted = 0;
    /// For the fields of a head while it is parsed. A connection copies those of a whole one.
    std::vector<Field> field_storage;
    penstock::detail::AcceptLoop accept_loop; ///< lists the connections that wait for a request
};

} // namespace penstock::http::detail
