#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <openssl/ssl.h>

#include <penstock/detail/keyed_hash.hpp>
#include <penstock/tls/context.hpp>

#include "tls/ticket_key_ring.hpp"

namespace penstock::tls::detail {

/// Frees OpenSSL's objects.
template <auto Free> struct Freed {
    template <typename T> void operator()(T* object) const noexcept { Free(object); }
};
using OwnedContext = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using OwnedConnection = std::unique_ptr<SSL, Freed<SSL_free>>;
using OwnedSession = std::unique_ptr<SSL_SESSION, Freed<SSL_SESSION_free>>;

/// Takes the first error of this thread's queue, and empties the queue.
[[nodiscard]] std::error_code take_openssl_error() noexcept;

/// What all connections of a context share.
///
/// Owned by the contexts and by each connection that it began with, so a reload, which makes
/// another one, changes nothing for those. The members that are public are set before the first
/// connection, and only read from then on.
///
/// Thread safety: connections of several threads may use it. The kept sessions are guarded by a
/// mutex, which is held for a look-up only. `select` is called on the connection's thread, without
/// the mutex.
///
/// Cost: a kept session is found, added and dropped in constant time; the one that was kept the
/// longest goes first.
class ContextState {
public:
    ContextState(OwnedContext context, bool verify, std::size_t sessions);

    [[nodiscard]] SSL_CTX* native() const noexcept { return context_.get(); }
    [[nodiscard]] bool verifies() const noexcept { return verify_; }

    /// Sets the session to resume with a server, if there is one. A session of TLS 1.3 is used
    /// once, as RFC 8446, appendix C.4, advises.
    void resume_session(SSL* connection, const std::string& server);

    /// After the handshake of a client: keeps the session that the server has renewed in it.
    /// OpenSSL does not report it if it has resumed a session of TLS 1.2, whose old ticket then is
    /// invalid. Throws `std::bad_alloc`.
    void keep_renewed_session(SSL* connection, const std::string& server);

    /// `ServerOptions::select`.
    std::function<std::optional<Context>(std::string_view)> select;

    /// Of a server: null if OpenSSL has keys of this context's own.
    std::shared_ptr<TicketKeyRing> ticket_keys;
    /// Of a server: which clients it trusts. Sessions go over to a context that trusts the same.
    std::array<unsigned char, SSL_MAX_SID_CTX_LENGTH> trust{};
    std::array<unsigned char, SSL_MAX_SID_CTX_LENGTH> session_context{};

    /// The protocols to choose from, each behind its length.
    std::vector<unsigned char> alpn;

    /// The name of the server of a client's connection, under this index of its extra data.
    [[nodiscard]] static int server_name_index() noexcept;

private:
    static int on_new_session(SSL* connection, SSL_SESSION* session) noexcept;

    void keep_session(const std::string& server, OwnedSession session);

    struct Kept {
        std::string server;
        OwnedSession session;
    };

    OwnedContext context_;
    const bool verify_;
    const std::size_t most_sessions_;
    std::mutex lock_;
    std::list<Kept> sessions_; ///< the latest first
    /// A server may choose the names, by redirects.
    std::unordered_map<std::string, std::list<Kept>::iterator, penstock::detail::KeyedHash>
        by_server_;
};

/// The state that new connections get, which a reload replaces.
class ContextCell {
public:
    ContextCell(std::shared_ptr<ContextState> state, bool server) noexcept
        : state_(std::move(state)), server_(server) {}

    [[nodiscard]] bool is_server() const noexcept { return server_; }
    [[nodiscard]] std::shared_ptr<ContextState> get() const {
        const std::lock_guard guard(lock_);
        return state_;
    }
    void set(std::shared_ptr<ContextState> state) {
        const std::lock_guard guard(lock_);
        state_.swap(state); // the old one may end outside the lock
    }

private:
    mutable std::mutex lock_;
    std::shared_ptr<ContextState> state_;
    const bool server_;
};

} // namespace penstock::tls::detail
