#include "tls/context_state.hpp"

#include <utility>

#include <openssl/err.h>

#include <penstock/tls/errors.hpp>

namespace penstock::tls::detail {

std::error_code take_openssl_error() noexcept {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    if (code == 0) {
        return std::make_error_code(std::errc::io_error);
    }
    if (ERR_SYSTEM_ERROR(code)) {
        return {ERR_GET_REASON(code), std::system_category()};
    }
    return {static_cast<int>(code), openssl_category()};
}

ContextState::ContextState(OwnedContext context, bool verify, std::size_t sessions)
    : context_(std::move(context)), verify_(verify), most_sessions_(sessions) {
    SSL_CTX_set_app_data(native(), this);
    if (sessions > 0) {
        SSL_CTX_set_session_cache_mode(native(),
                                       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(native(), &on_new_session);
    }
}

int ContextState::server_name_index() noexcept {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
}

// TLS 1.3 sends sessions after the handshake, so they arrive with later reads.
int ContextState::on_new_session(SSL* connection, SSL_SESSION* session) noexcept {
    const auto* server =
        static_cast<const std::string*>(SSL_get_ex_data(connection, server_name_index()));
    if (server == nullptr || server->empty()) {
        return 0;
    }
    auto* self = static_cast<ContextState*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(connection)));
    try {
        self->keep_session(*server, OwnedSession(session));
    } catch (...) { // no memory: the next connection makes a full handshake
        return 1;   // `OwnedSession` has freed it
    }
    return 1;
}

void ContextState::keep_session(const std::string& server, OwnedSession session) {
    const std::lock_guard guard(lock_);
    if (const auto known = by_server_.find(server); known != by_server_.end()) {
        known->second->session = std::move(session);
        sessions_.splice(sessions_.begin(), sessions_, known->second);
        return;
    }
    sessions_.push_front({.server = server, .session = std::move(session)});
    by_server_.emplace(server, sessions_.begin());
    if (sessions_.size() > most_sessions_) {
        by_server_.erase(sessions_.back().server);
        sessions_.pop_back();
    }
}

void ContextState::keep_renewed_session(SSL* connection, const std::string& server) {
    if (most_sessions_ > 0 && !server.empty() && SSL_session_reused(connection) == 1 &&
        SSL_version(connection) < TLS1_3_VERSION) {
        keep_session(server, OwnedSession(SSL_get1_session(connection)));
    }
}

void ContextState::resume_session(SSL* connection, const std::string& server) {
    const std::lock_guard guard(lock_);
    const auto known = by_server_.find(server);
    if (known == by_server_.end()) {
        return;
    }
    SSL_SESSION* const session = known->second->session.get();
    SSL_set_session(connection, session); // adds a reference
    // Each handshake of TLS 1.3 brings new ones, and those of TLS 1.2 often none.
    if (SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION) {
        sessions_.erase(known->second);
        by_server_.erase(known);
    }
}

} // namespace penstock::tls::detail
