#include <penstock/tls/context.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <penstock/tls/detail/engine.hpp>

#include "tls/context_state.hpp"

namespace penstock::tls {

using detail::ContextCell;
using detail::ContextState;
using detail::Freed;
using detail::OwnedContext;
using detail::take_openssl_error;
using detail::TicketKeyRing;

namespace {

using SessionContext = std::array<unsigned char, SSL_MAX_SID_CTX_LENGTH>;

int native_version(Version version) noexcept {
    return version == Version::tls_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION;
}

/// What clients and servers have in common.
Result<OwnedContext> make_context(const SSL_METHOD* method, Version oldest, Version newest) {
    ERR_clear_error();
    OwnedContext context(SSL_CTX_new(method));
    if (!context) {
        return failure(take_openssl_error());
    }
    if (oldest > newest) {
        return failure(std::errc::invalid_argument);
    }
    SSL_CTX_set_min_proto_version(context.get(), native_version(oldest));
    SSL_CTX_set_max_proto_version(context.get(), native_version(newest));
    // An idle connection gives its buffers back (34 KiB). Partial writes do not occur: the engine
    // takes every record.
    SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_read_ahead(context.get(), 1);
    return context;
}

Result<> use_identity(SSL_CTX* context, const Identity& identity) {
    if (SSL_CTX_use_certificate_chain_file(context, identity.certificate_chain_file.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, identity.private_key_file.c_str(), SSL_FILETYPE_PEM) !=
            1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return failure(take_openssl_error());
    }
    return {};
}

/// The names in the form of the protocol: each behind its length.
Result<std::vector<unsigned char>> alpn_list(const std::vector<std::string>& names) {
    std::vector<unsigned char> list;
    for (const std::string& name : names) {
        if (name.empty() || name.size() > 255) {
            return failure(std::errc::invalid_argument);
        }
        list.push_back(static_cast<unsigned char>(name.size()));
        list.insert(list.end(), name.begin(), name.end());
    }
    return list;
}

/// The server's preference decides, which `SSL_select_next_proto` does not do by itself.
int select_alpn(SSL* /*connection*/, const unsigned char** chosen, unsigned char* size,
                const unsigned char* offered, unsigned offered_size, void* state) noexcept {
    const std::vector<unsigned char>& accepted = static_cast<ContextState*>(state)->alpn;
    unsigned char* selected = nullptr;
    if (SSL_select_next_proto(&selected, size, accepted.data(),
                              static_cast<unsigned>(accepted.size()), offered,
                              offered_size) != OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *chosen = selected;
    return SSL_TLSEXT_ERR_OK;
}

} // namespace

Result<Context> Context::client(const ClientOptions& options) {
    Result<OwnedContext> made = make_context(TLS_client_method(), options.oldest, options.newest);
    if (!made) {
        return failure(made.error());
    }
    SSL_CTX* context = made->get();
    SSL_CTX_set_verify(context, options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    const bool trusts =
        options.authorities_file.empty()
            ? SSL_CTX_set_default_verify_paths(context) == 1
            : SSL_CTX_load_verify_file(context, options.authorities_file.c_str()) == 1;
    if (!trusts) {
        return failure(take_openssl_error());
    }
    const Identity& identity = options.identity;
    if (identity.certificate_chain_file.empty() != identity.private_key_file.empty()) {
        return failure(std::errc::invalid_argument);
    }
    if (!identity.certificate_chain_file.empty()) {
        if (const Result<> used = use_identity(context, identity); !used) {
            return failure(used.error());
        }
    }
    Result<std::vector<unsigned char>> alpn = alpn_list(options.alpn);
    if (!alpn) {
        return failure(alpn.error());
    }
    if (!alpn->empty() &&
        SSL_CTX_set_alpn_protos(context, alpn->data(), static_cast<unsigned>(alpn->size())) != 0) {
        return failure(take_openssl_error());
    }
    return Context(std::make_shared<ContextCell>(
        std::make_shared<ContextState>(std::move(*made), options.verify, options.sessions), false));
}

namespace {

/// A digest of what decides which clients are trusted.
Result<SessionContext> trust_of(const Context::ServerOptions& options) {
    const std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>> digest(EVP_MD_CTX_new());
    const unsigned char required = options.require_client_certificate ? 1 : 0;
    if (!digest || EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) != 1 ||
        EVP_DigestUpdate(digest.get(), &required, 1) != 1) {
        return failure(take_openssl_error());
    }
    if (!options.client_authorities_file.empty()) {
        const std::unique_ptr<BIO, Freed<BIO_free>> file(
            BIO_new_file(options.client_authorities_file.c_str(), "rb"));
        std::array<unsigned char, 4096> part{};
        std::size_t size = 0;
        while (file && BIO_read_ex(file.get(), part.data(), part.size(), &size) == 1) {
            if (EVP_DigestUpdate(digest.get(), part.data(), size) != 1) {
                return failure(take_openssl_error());
            }
        }
    }
    SessionContext made{};
    static_assert(made.size() == 32); // of SHA-256
    if (EVP_DigestFinal_ex(digest.get(), made.data(), nullptr) != 1) {
        return failure(take_openssl_error());
    }
    return made;
}

/// A session is resumed only in the context that it began in, or in one that trusts the same
/// clients and has the same keys by the owner's will: another one that `select` chooses may trust
/// others. `before` is what a reload replaces.
Result<> name_session_context(ContextState& state, const ContextState* before) {
    if (state.ticket_keys) {
        state.session_context = state.trust;
    } else if (before != nullptr && before->trust == state.trust) {
        state.session_context = before->session_context;
    } else if (RAND_bytes(state.session_context.data(),
                          static_cast<int>(state.session_context.size())) != 1) {
        return failure(take_openssl_error());
    }
    if (SSL_CTX_set_session_id_context(state.native(), state.session_context.data(),
                                       static_cast<unsigned>(state.session_context.size())) != 1) {
        return failure(take_openssl_error());
    }
    return {};
}

/// Keys that are OpenSSL's own go over.
Result<> copy_ticket_keys(SSL_CTX* from, SSL_CTX* to) {
    std::array<unsigned char, 80> keys{};
    const bool copied = SSL_CTX_get_tlsext_ticket_keys(from, keys.data(), keys.size()) == 1 &&
                        SSL_CTX_set_tlsext_ticket_keys(to, keys.data(), keys.size()) == 1;
    OPENSSL_cleanse(keys.data(), keys.size());
    return copied ? Result<>() : failure(take_openssl_error());
}

Result<std::shared_ptr<ContextState>> make_server(const Context::ServerOptions& options,
                                                  std::shared_ptr<TicketKeyRing> ticket_keys,
                                                  const ContextState* before) {
    Result<OwnedContext> made = make_context(TLS_server_method(), options.oldest, options.newest);
    if (!made) {
        return failure(made.error());
    }
    SSL_CTX* context = made->get();
    if (const Result<> used = use_identity(context, options.identity); !used) {
        return failure(used.error());
    }
    if (!options.client_authorities_file.empty()) {
        const char* file = options.client_authorities_file.c_str();
        if (SSL_CTX_load_verify_file(context, file) != 1) {
            return failure(take_openssl_error());
        }
        STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(file);
        if (names == nullptr) {
            return failure(take_openssl_error());
        }
        SSL_CTX_set_client_CA_list(context, names); // takes ownership
        SSL_CTX_set_verify(
            context,
            SSL_VERIFY_PEER |
                (options.require_client_certificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
            nullptr);
    }
    Result<std::vector<unsigned char>> alpn = alpn_list(options.alpn);
    if (!alpn) {
        return failure(alpn.error());
    }
    auto state = std::make_shared<ContextState>(std::move(*made), false, 0);
    state->alpn = std::move(*alpn);
    state->select = options.select;
    const Result<SessionContext> trust = trust_of(options);
    if (!trust) {
        return failure(trust.error());
    }
    state->trust = *trust;
    state->ticket_keys = std::move(ticket_keys);
    if (const Result<> named = name_session_context(*state, before); !named) {
        return failure(named.error());
    }
    if (state->ticket_keys) {
        SSL_CTX_set_tlsext_ticket_key_evp_cb(context, &detail::Engine::on_ticket_key);
    } else if (before != nullptr) {
        if (const Result<> copied = copy_ticket_keys(before->native(), context); !copied) {
            return failure(copied.error());
        }
    }
    SSL_CTX_set_client_hello_cb(context, &detail::Engine::on_client_hello, nullptr);
    if (!state->alpn.empty()) {
        SSL_CTX_set_alpn_select_cb(context, &select_alpn, state.get());
    }
    return state;
}

} // namespace

Result<Context> Context::server(const ServerOptions& options) {
    Result<std::shared_ptr<ContextState>> state =
        make_server(options, options.ticket_keys ? options.ticket_keys->ring_ : nullptr, nullptr);
    if (!state) {
        return failure(state.error());
    }
    return Context(std::make_shared<ContextCell>(std::move(*state), true));
}

Result<> Context::reload(const ServerOptions& options) const {
    if (!cell_) { // moved from
        return failure(std::errc::invalid_argument);
    }
    if (!cell_->is_server()) {
        return failure(std::errc::operation_not_supported);
    }
    const std::shared_ptr<ContextState> before = cell_->get();
    Result<std::shared_ptr<ContextState>> state =
        make_server(options, options.ticket_keys ? options.ticket_keys->ring_ : before->ticket_keys,
                    before.get());
    if (!state) {
        return failure(state.error());
    }
    cell_->set(std::move(*state));
    return {};
}

} // namespace penstock::tls
