#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/detail/io/connect_operation.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/net/stream_socket.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/task/task.hpp>

namespace penstock::net {

/// A TCP connection. `no_delay` is on by default: `write_all(head, body)` already sends all parts
/// in one call, so Nagle's algorithm would only add a delay of up to 40 ms.
class TcpStream : public StreamSocket {
public:
    using Connect = detail::ConnectOperation<TcpStream, Endpoint>;

    /// A closed stream.
    TcpStream() = default;

    /// Takes ownership of a connected, non-blocking socket.
    explicit TcpStream(std::unique_ptr<detail::Pollable> socket) noexcept
        : StreamSocket(std::move(socket)) {}

    /// Takes ownership of a connected TCP socket that another library or process has opened. Makes
    /// it non-blocking, for every user of the open file description, and turns `no_delay` on. Child
    /// processes do not inherit it (close-on-exec), unless it is a standard stream. Errors:
    /// `bad_file_descriptor`, `not_a_socket`, `wrong_protocol_type` if it is not a TCP socket, and
    /// `not_connected`. The descriptor is closed after an error.
    [[nodiscard]] static Result<TcpStream> adopt(OwnedDescriptor socket);

    /// Connects to one address. Errors: those of socket(2) and connect(2), such as
    /// `connection_refused` and `timed_out`. The kernel's own time-out is minutes. Use `timeout`
    /// for a shorter one. A cancelled attempt closes the socket.
    [[nodiscard]] static Connect connect(const Endpoint& endpoint);

    /// Connects to a host name or numeric address: `resolve`, then `connect` to its addresses.
    [[nodiscard]] static Task<Result<TcpStream>> connect(std::string host, std::uint16_t port);

    /// The delay before the next attempt starts (RFC 8305, section 5).
    static constexpr std::chrono::milliseconds attempt_delay{250};

    /// Connects to the first address that answers, with a head start for earlier ones ("happy
    /// eyeballs", RFC 8305). The next attempt starts when the previous one has failed, or
    /// `attempt_delay` after it started. IPv6 and IPv4 alternate, starting with the family of the
    /// first address. The losing attempts are cancelled. If all fail, the error of the last address
    /// is returned. Without addresses it is `address_not_available`.
    [[nodiscard]] static Task<Result<TcpStream>> connect(std::vector<Endpoint> endpoints);

    [[nodiscard]] Result<Endpoint> local_endpoint() const;
    [[nodiscard]] Result<Endpoint> peer_endpoint() const;

    /// Whether small writes are sent at once (TCP_NODELAY, tcp(7)). On by default.
    Result<> no_delay(bool on) noexcept;
    [[nodiscard]] Result<bool> no_delay() const noexcept;

    /// Whether the kernel probes an idle peer (SO_KEEPALIVE). Off by default.
    Result<> keep_alive(bool on) noexcept;
    [[nodiscard]] Result<bool> keep_alive() const noexcept;

    /// Turns keep-alive on and sets its times: the first probe after `idle` without data, then one
    /// each `interval`. After `probes` without an answer the connection fails with `timed_out`
    /// (tcp(7)). Whole seconds, at least one. Errors: `invalid_argument` otherwise.
    Result<> keep_alive(std::chrono::seconds idle, std::chrono::seconds interval,
                        int probes) noexcept;

    /// Resets the connection and closes it. Unsent data is dropped, and the peer's next operation
    /// fails with `connection_reset`. The port does not enter TIME_WAIT.
    void reset() noexcept;
};

} // namespace penstock::net
