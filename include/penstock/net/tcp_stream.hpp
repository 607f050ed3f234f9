#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/detail/connect_operation.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/net/stream_socket.hpp>
#include <penstock/task.hpp>

namespace penstock::net {

/// A TCP connection. Small writes are sent at once (`no_delay` is on from the start): a program that
/// gathers what belongs together, as `write_all(head, body)` does, has nothing to gain from Nagle's
/// algorithm and up to 40 ms to lose.
class TcpStream : public StreamSocket {
public:
    using Connect = detail::ConnectOperation<TcpStream, Endpoint>;

    /// A closed stream.
    TcpStream() = default;

    /// Takes over a connected, non-blocking socket.
    explicit TcpStream(std::unique_ptr<detail::Pollable> socket) noexcept
        : StreamSocket(std::move(socket)) {}

    /// Connects to one address. Errors: socket(2)'s and connect(2)'s, `connection_refused` and
    /// `timed_out` above all; the kernel's own time-out is minutes, `timeout` gives a shorter one. A
    /// cancelled attempt is given up.
    [[nodiscard]] static Connect connect(const Endpoint& endpoint);

    /// Connects to a host by name, or by an address in figures: `resolve`, then its addresses as below.
    [[nodiscard]] static Task<Result<TcpStream>> connect(std::string host, std::uint16_t port);

    /// How long an attempt has to itself before the next one begins (RFC 8305, section 5).
    static constexpr std::chrono::milliseconds attempt_delay{250};

    /// Connects to whichever address answers first, with a head start for the earlier ones ("happy
    /// eyeballs", RFC 8305): the next attempt begins when the one before has failed, or `attempt_delay`
    /// after it began. IPv6 and IPv4 take turns, beginning with the first address's. The attempts that
    /// come too late are ended. When all fail, the last address's error is the result;
    /// `address_not_available` when there is none.
    [[nodiscard]] static Task<Result<TcpStream>> connect(std::vector<Endpoint> endpoints);

    [[nodiscard]] Result<Endpoint> local_endpoint() const;
    [[nodiscard]] Result<Endpoint> peer_endpoint() const;

    /// Whether small writes leave at once (TCP_NODELAY, tcp(7)). On from the start.
    Result<> no_delay(bool on) noexcept;
    [[nodiscard]] Result<bool> no_delay() const noexcept;

    /// Whether the kernel asks a silent peer for a sign of life (SO_KEEPALIVE). Off from the start.
    Result<> keep_alive(bool on) noexcept;
    [[nodiscard]] Result<bool> keep_alive() const noexcept;

    /// When it does: after `idle` without a byte, then each `interval`, and after `probes` without an
    /// answer the connection ends with `timed_out` (tcp(7)). Whole seconds, at least one;
    /// `invalid_argument` otherwise.
    Result<> keep_alive(std::chrono::seconds idle, std::chrono::seconds interval,
                        int probes) noexcept;

    /// Ends the connection by a reset: what is unsent is dropped, and the peer's next operation fails
    /// with `connection_reset`. Also keeps the port out of TIME_WAIT.
    void reset() noexcept;
};

} // namespace penstock::net
