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
/// that share keys resume each other's sessions:
///
///     const tls::TicketKeys keys = co_await unwrap(tls::TicketKeys::random());
///     // in the options of the context of each loop: .ticket_keys = keys
///
/// Anyone who has a key can decrypt recorded TLS 1.2 sessions that were resumed with it. So a key
/// is replaced after a while. Two older keys are kept for tickets that are still in use.
///
/// Copies share one set of keys. `rotate` and `reload` of a moved-from object fail with
/// `invalid_argument`, and a context with it makes its own keys. Resumption also requires that both
/// contexts trust the same clients.
///
/// Thread safety: any thread may call any member.
class TicketKeys {
public:
    /// Random keys, for the loops of one process. When a ticket is issued and the current key is
    /// older than `interval`, a new key replaces it. Errors: those of `openssl_category`.
    [[nodiscard]] static Result<TicketKeys>
    random(std::chrono::seconds interval = std::chrono::hours(12));

    /// Keys from files, the current one first, for several processes or machines. A file has 80
    /// random bytes, as `openssl rand 80` makes them and nginx (ssl_session_ticket_key) reads them.
    /// The program must replace the files after a while and call `reload`. Blocks while it reads.
    ///
    /// Errors: `invalid_argument` without a file or for one of another size,
    /// `no_such_file_or_directory` and the like.
    [[nodiscard]] static Result<TicketKeys> from_files(const std::vector<std::string>& files);

    /// Makes a new random key the current one. Errors: `operation_not_supported` for keys from
    /// files, and those of `openssl_category`.
    [[nodiscard]] Result<> rotate() const;

    /// Replaces all keys by those in the files. Blocks while it reads. After an error the keys are
    /// unchanged. Errors: as `from_files`, and `operation_not_supported` for random keys.
    [[nodiscard]] Result<> reload(const std::vector<std::string>& files) const;

private:
    friend class Context;

    explicit TicketKeys(std::shared_ptr<detail::TicketKeyRing> ring) noexcept
        : ring_(std::move(ring)) {}

    std::shared_ptr<detail::TicketKeyRing> ring_;
};

} // namespace penstock::tls
