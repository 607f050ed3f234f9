#include <penstock/tls/context.hpp>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <penstock/tls/detail/engine.hpp>

#include "tls/context_state.hpp"

namespace penstock::tls {

using detail::ContextState;
using detail::OwnedContext;
using detail::take_openssl_error;

namespace {

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
    return Context(
        std::make_shared<ContextState>(std::move(*made), options.verify, options.sessions));
}

Result<Context> Context::server(const ServerOptions& options) {
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
    // A session is resumed only in the context that it began in: another one that `select` chooses
    // may trust other clients.
    std::array<unsigned char, 16> session_context{};
    if (RAND_bytes(session_context.data(), session_context.size()) != 1 ||
        SSL_CTX_set_session_id_context(context, session_context.data(), session_context.size()) !=
            1) {
        return failure(take_openssl_error());
    }
    Result<std::vector<unsigned char>> alpn = alpn_list(options.alpn);
    if (!alpn) {
        return failure(alpn.error());
    }
    auto state = std::make_shared<ContextState>(std::move(*made), false, 0);
    state->alpn = std::move(*alpn);
    state->select = options.select;
    SSL_CTX_set_client_hello_cb(context, &detail::Engine::on_client_hello, nullptr);
    if (!state->alpn.empty()) {
        SSL_CTX_set_alpn_select_cb(context, &select_alpn, state.get());
    }
    return Context(std::move(state));
}

} // namespace penstock::tls
