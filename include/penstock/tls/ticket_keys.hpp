#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/result.hpp>

namespace penstock::tls {

namespace detail {
class Engine;
class TicketKeyRing;
} // namespace detail

/// The keys with which servers encrypt session tickets (RFC 5077; RFC 8446, section 4.6.1). Servers
/// that share them resume each other's sessions:
///
///     const tls::TicketKeys keys = co_await unwrap(tls::TicketKeys::random());
///     // in the options of the context of each loop: .ticket_keys = keys
///
/// Whoever has a key can read the recorded sessions of TLS 1.2 that it has resumed, and so a key is
/// replaced after a while. Two older ones are kept for the tickets that are still around.
///
/// Copies share one set. With one that was moved from, `rotate` and `reload` fail with
/// `invalid_argument`, and a context has keys of its own. Resumption also needs that both contexts
/// trust the same clients.
///
/// Thread safety: any thread.
class TicketKeys {
public:
    /// Random keys, for the loops of one process. The current one is replaced when it is older than
    /// `interval` and a ticket is issued. Errors: OpenSSL's.
    [[nodiscard]] static Result<TicketKeys>
    random(std::chrono::seconds interval = std::chrono::hours(12));

    /// Keys of files, the current one first, for several processes or machines: 80 random bytes
    /// each, as `openssl rand 80` makes them and nginx (ssl_session_ticket_key) reads them. Who
    /// makes the files replaces them too, and calls `reload` then. Blocks while it reads.
    ///
    /// Errors: `invalid_argument` without a file or for one of another size,
    /// `no_such_file_or_directory` and the like.
    [[nodiscard]] static Result<TicketKeys> from_files(const std::vector<std::string>& files);

    /// Makes a new random key the current one. Errors: `operation_not_supported` for keys of files,
    /// OpenSSL's.
    [[nodiscard]] Result<> rotate() const;

    /// Replaces all keys by those of the files. After an error the keys stay. Errors: as
    /// `from_files`, and `operation_not_supported` for random keys.
    [[nodiscard]] Result<> reload(const std::vector<std::string>& files) const;

private:
    friend class Context;

    explicit TicketKeys(std::shared_ptr<detail::TicketKeyRing> ring) noexcept
        : ring_(std::move(ring)) {}

    std::shared_ptr<detail::TicketKeyRing> ring_;
};

} // namespace penstock::tls
