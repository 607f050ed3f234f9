#pragma once

#include <memory>

#include <penstock/detail/accept_operation.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/result.hpp>

namespace penstock::net {

/// A listening TCP socket. As with a stream, one task at a time accepts, on the loop where it first
/// waited.
class TcpListener {
public:
    struct Options {
        /// How many connections may wait to be accepted; the kernel's limit is
        /// /proc/sys/net/core/somaxconn.
        int backlog = 4096;
        /// Several listeners of the same port, in any processes of one user; the kernel spreads new
        /// connections over them (SO_REUSEPORT, socket(7)).
        bool reuse_port = false;
        /// An IPv6 listener that takes no IPv4 connections.
        bool v6_only = false;
    };

    using Accept = detail::AcceptOperation<TcpStream>;

    TcpListener() = default;

    /// Binds and listens at once; port 0 lets the kernel choose (`local_endpoint` tells). The port of a
    /// server that has just ended can be bound again (SO_REUSEADDR). Errors: `address_in_use`,
    /// `permission_denied`, and what else socket(2), bind(2) and listen(2) have.
    [[nodiscard]] static Result<TcpListener> listen(const Endpoint& endpoint,
                                                    const Options& options);
    [[nodiscard]] static Result<TcpListener> listen(const Endpoint& endpoint) {
        return listen(endpoint, Options());
    }

    /// Waits for a connection. Connections that end before they are accepted are passed over. A
    /// cancelled accept has taken none.
    ///
    /// `too_many_files_open` and its like leave the connection where it is, so a server that goes on at
    /// once is told the same again: sleep a little first.
    [[nodiscard]] Accept accept() noexcept { return Accept(pollable_.get()); }

    [[nodiscard]] Result<Endpoint> local_endpoint() const;

    /// Stops listening. A waiting `accept` gets `operation_canceled`.
    void close() noexcept { pollable_.reset(); }

    [[nodiscard]] bool is_open() const noexcept { return pollable_ != nullptr; }
    [[nodiscard]] int native_handle() const noexcept {
        return pollable_ ? pollable_->descriptor() : -1;
    }

private:
    explicit TcpListener(std::unique_ptr<detail::Pollable> pollable) noexcept
        : pollable_(std::move(pollable)) {}

    std::unique_ptr<detail::Pollable> pollable_;
};

} // namespace penstock::net
