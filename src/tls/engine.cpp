#include <penstock/tls/detail/engine.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <penstock/tls/errors.hpp>

#include "tls/context_state.hpp"

namespace penstock::tls::detail {

/// The BIO between OpenSSL and an engine's input and output.
struct Engine::Bio {
    static int read(BIO* bio, char* into, int size) noexcept {
        auto& engine = *static_cast<Engine*>(BIO_get_data(bio));
        BIO_clear_retry_flags(bio);
        if (engine.input_.empty()) {
            BIO_set_retry_read(bio);
            return -1;
        }
        const std::size_t count = std::min(static_cast<std::size_t>(size), engine.input_.size());
        std::memcpy(into, engine.input_.data(), count);
        engine.input_ = Bytes(engine.input_.data() + count, engine.input_.size() - count);
        return static_cast<int>(count);
    }

    static int write(BIO* bio, const char* from, int size) noexcept {
        auto& engine = *static_cast<Engine*>(BIO_get_data(bio));
        BIO_clear_retry_flags(bio);
        if (engine.ended_) {
            return size;
        }
        Bytes rest(from, static_cast<std::size_t>(size));
        if (engine.outlet_.take != nullptr && engine.output_.empty()) {
            const std::size_t taken = engine.outlet_.take(engine.outlet_.stream, rest);
            rest = Bytes(rest.data() + taken, rest.size() - taken);
        }
        if (rest.empty()) {
            return size;
        }
        // Only a peer that asks for answers without reading them can fill it.
        const std::size_t used = engine.output_.size();
        const std::span<std::byte> room = engine.output_.borrow();
        if (room.size() - used < rest.size()) {
            engine.output_.resize(used); // returns an unused buffer
            engine.error_ = std::make_error_code(room.empty() ? std::errc::not_enough_memory
                                                              : std::errc::no_buffer_space);
            return -1;
        }
        std::memcpy(room.data() + used, rest.data(), rest.size());
        engine.output_.resize(used + rest.size());
        return size;
    }

    static long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) noexcept {
        return command == BIO_CTRL_FLUSH ? 1 : 0;
    }

    static int create(BIO* bio) noexcept {
        BIO_set_init(bio, 1);
        return 1;
    }

    /// Null if there is no memory.
    [[nodiscard]] static const BIO_METHOD* method() noexcept {
        static const BIO_METHOD* const made = [] {
            BIO_METHOD* fresh =
                BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "penstock");
            if (fresh != nullptr) {
                BIO_meth_set_read(fresh, &read);
                BIO_meth_set_write(fresh, &write);
                BIO_meth_set_ctrl(fresh, &control);
                BIO_meth_set_create(fresh, &create);
            }
            return fresh;
        }();
        return made;
    }
};

namespace {

/// The name that a client asks for (RFC 6066, section 3); empty if there is none. OpenSSL checks
/// the extension later, and refuses a malformed one.
std::string offered_name(SSL* connection) {
    constexpr std::size_t head = 5; // lengths of list and name, with the kind of name in between
    const unsigned char* bytes = nullptr;
    std::size_t size = 0;
    if (SSL_client_hello_get0_ext(connection, TLSEXT_TYPE_server_name, &bytes, &size) != 1 ||
        size < head || bytes[2] != TLSEXT_NAMETYPE_host_name) {
        return {};
    }
    const std::size_t length = std::size_t{bytes[3]} * 256 + bytes[4];
    return length == size - head ? std::string(reinterpret_cast<const char*>(bytes) + head, length)
                                 : std::string();
}

} // namespace

void Engine::FreeConnection::operator()(ssl_st* connection) const noexcept {
    SSL_free(connection);
}

Engine::~Engine() {
    // Without this, OpenSSL does not resume the session of a connection that ends without a
    // close_notify, a rule of TLS 1.0 (RFC 5246, section 7.2.1, has dropped it).
    if (connection_ && !error_) {
        SSL_set_shutdown(connection_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    }
}

Result<std::unique_ptr<Engine>> Engine::make(const Context& context, Side side,
                                             std::string server_name) {
    if (!context.cell_) { // moved from
        return failure(std::errc::invalid_argument);
    }
    std::unique_ptr<Engine> engine(new Engine(context.cell_->get(), std::move(server_name)));
    if (const Result<> begun = engine->begin(side); !begun) {
        return failure(begun.error());
    }
    return engine;
}

Result<> Engine::begin(Side side) {
    ERR_clear_error();
    connection_.reset(SSL_new(context_->native()));
    const BIO_METHOD* const method = Bio::method();
    BIO* const bio = method != nullptr ? BIO_new(method) : nullptr;
    if (!connection_ || bio == nullptr) {
        BIO_free(bio);
        return failure(take_openssl_error());
    }
    BIO_set_data(bio, this);
    SSL_set_bio(connection_.get(), bio, bio); // takes ownership
    SSL_set_app_data(connection_.get(), this);
    if (side == Side::server) {
        SSL_set_accept_state(connection_.get());
        ticket_keys_ = context_->ticket_keys;
        return {};
    }
    SSL_set_connect_state(connection_.get());
    if (const std::error_code error = name_server()) {
        return failure(error);
    }
    context_->resume_session(connection_.get(), server_name_);
    return {};
}

std::error_code Engine::name_server() {
    SSL_set_ex_data(connection_.get(), ContextState::server_name_index(), &server_name_);
    if (server_name_.empty()) {
        return context_->verifies() ? make_error_code(Error::no_certificate_name)
                                    : std::error_code();
    }
    std::array<unsigned char, sizeof(in6_addr)> address{};
    const bool is_address = ::inet_pton(AF_INET, server_name_.c_str(), address.data()) == 1 ||
                            ::inet_pton(AF_INET6, server_name_.c_str(), address.data()) == 1;
    if (is_address) { // SNI carries names only (RFC 6066, section 3)
        X509_VERIFY_PARAM* const verification = SSL_get0_param(connection_.get());
        return X509_VERIFY_PARAM_set1_ip_asc(verification, server_name_.c_str()) == 1
                   ? std::error_code()
                   : take_openssl_error();
    }
    SSL_set_hostflags(connection_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set_tlsext_host_name(connection_.get(), server_name_.c_str()) != 1 ||
        SSL_set1_host(connection_.get(), server_name_.c_str()) != 1) {
        return take_openssl_error();
    }
    return {};
}

int Engine::on_client_hello(SSL* connection, int* alert, void* /*unused*/) noexcept {
    auto& engine = *static_cast<Engine*>(SSL_get_app_data(connection));
    try {
        if (engine.select_context()) {
            return SSL_CLIENT_HELLO_SUCCESS;
        }
    } catch (...) {
        engine.thrown_ = std::current_exception();
    }
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
}

int Engine::on_ticket_key(SSL* connection, unsigned char* name, unsigned char* start,
                          EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int encrypts) noexcept {
    const auto& engine = *static_cast<Engine*>(SSL_get_app_data(connection));
    return engine.ticket_keys_->begin(name, start, cipher, mac, encrypts == 1);
}

// The context is selected here and not in the callback for the server's name: this is the last
// point before OpenSSL uses its certificate, verification, versions and sessions.
bool Engine::select_context() {
    server_name_ = offered_name(connection_.get());
    const std::optional<Context> selected =
        context_->select ? context_->select(server_name_) : std::nullopt;
    if (!selected) {
        return true;
    }
    if (!selected->cell_) { // moved from
        return false;
    }
    std::shared_ptr<ContextState> state = selected->cell_->get();
    SSL* const connection = connection_.get();
    SSL_CTX* const native = state->native();
    if (SSL_set_SSL_CTX(connection, native) == nullptr ||
        SSL_set_min_proto_version(connection, SSL_CTX_get_min_proto_version(native)) != 1 ||
        SSL_set_max_proto_version(connection, SSL_CTX_get_max_proto_version(native)) != 1) {
        return false;
    }
    SSL_set_verify(connection, SSL_CTX_get_verify_mode(native), nullptr);
    context_ = std::move(state);
    return true;
}

Step Engine::outcome(int returned) noexcept {
    outlet_ = {};
    if (returned > 0) {
        return Step::done;
    }
    if (error_) { // of the BIO
        return Step::failed;
    }
    switch (SSL_get_error(connection_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
        return Step::needs_input;
    case SSL_ERROR_ZERO_RETURN:
        return Step::end_of_stream;
    default:
        break;
    }
    const long verified = SSL_get_verify_result(connection_.get());
    error_ = take_openssl_error();
    if (verified != X509_V_OK && context_->verifies()) {
        error_ = {static_cast<int>(verified), certificate_category()};
    }
    return Step::failed;
}

Step Engine::handshake() {
    ERR_clear_error();
    const Step step = outcome(SSL_do_handshake(connection_.get()));
    if (thrown_) {
        std::rethrow_exception(std::exchange(thrown_, {}));
    }
    if (step == Step::done) {
        context_->keep_renewed_session(connection_.get(), server_name_);
    }
    return step;
}

bool Engine::may_decrypt() const noexcept {
    return !input_.empty() || error_ || SSL_has_pending(connection_.get()) == 1 ||
           (SSL_get_shutdown(connection_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
}

Step Engine::decrypt(MutableBytes into, std::size_t& count, Outlet outlet) noexcept {
    if (error_) {
        return Step::failed;
    }
    outlet_ = outlet;
    ERR_clear_error();
    return outcome(SSL_read_ex(connection_.get(), into.data(), into.size(), &count));
}

Step Engine::encrypt(Bytes from, Outlet outlet) noexcept {
    if (error_) {
        return Step::failed;
    }
    outlet_ = outlet;
    ERR_clear_error();
    std::size_t count = 0;
    return outcome(SSL_write_ex(connection_.get(), from.data(), from.size(), &count));
}

Step Engine::update_keys() noexcept {
    if (error_) {
        return Step::failed;
    }
    ERR_clear_error();
    if (SSL_get_key_update_type(connection_.get()) == SSL_KEY_UPDATE_NONE) {
        const int asked = SSL_key_update(connection_.get(), SSL_KEY_UPDATE_REQUESTED);
        if (asked != 1) {
            return outcome(asked);
        }
    }
    return outcome(SSL_do_handshake(connection_.get()));
}

Step Engine::shutdown() noexcept {
    if (error_) {
        return Step::failed;
    }
    ERR_clear_error();
    if (SSL_in_init(connection_.get()) == 1) { // in the middle of the peer's message
        const Step step = outcome(SSL_do_handshake(connection_.get()));
        if (step != Step::done) {
            return step;
        }
    }
    const int returned = SSL_shutdown(connection_.get());
    if (returned < 0) {
        return outcome(returned);
    }
    ended_ = true;
    return Step::done;
}

bool Engine::has_shut_down() const noexcept {
    return (SSL_get_shutdown(connection_.get()) & SSL_SENT_SHUTDOWN) != 0;
}

std::string_view Engine::version() const noexcept {
    return SSL_get_version(connection_.get());
}

std::string_view Engine::cipher() const noexcept {
    const char* const name = SSL_get_cipher_name(connection_.get());
    return name != nullptr ? name : "";
}

std::string_view Engine::alpn() const noexcept {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(connection_.get(), &name, &size);
    return {reinterpret_cast<const char*>(name), size};
}

bool Engine::session_resumed() const noexcept {
    return SSL_session_reused(connection_.get()) == 1;
}

std::optional<std::string> Engine::peer_certificate() const {
    X509* const certificate = SSL_get0_peer_certificate(connection_.get());
    if (certificate == nullptr) {
        return std::nullopt;
    }
    const std::unique_ptr<BIO, Freed<BIO_free>> text(BIO_new(BIO_s_mem()));
    if (!text || PEM_write_bio_X509(text.get(), certificate) != 1) {
        return std::nullopt;
    }
    char* data = nullptr;
    const long size = BIO_get_mem_data(text.get(), &data);
    return std::string(data, static_cast<std::size_t>(size));
}

} // namespace penstock::tls::detail
