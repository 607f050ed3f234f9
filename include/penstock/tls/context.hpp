#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/result.hpp>
#include <penstock/tls/ticket_keys.hpp>

namespace penstock::tls {

namespace detail {
class ContextCell;
class Engine;
} // namespace detail

/// A version of the protocol. Older ones are not supported (RFC 8996).
enum class Version : std::uint8_t { tls_1_2, tls_1_3 };

/// A certificate chain and its private key, in PEM files. This side's certificate comes first.
struct Identity {
    std::string certificate_chain_file{};
    std::string private_key_file{};
};

/// The TLS settings of a client or a server: the certificates that it trusts and presents, protocol
/// versions, ALPN, and the sessions to resume. Copies share one state. With a moved-from context,
/// connections fail with `invalid_argument`.
///
/// Thread safety: any thread may use a context once it is made.
class Context {
public:
    /// The settings of a client.
    struct ClientOptions {
        /// Refuses a server whose certificate is not signed by a trusted authority, or does not
        /// name the server (RFC 6125). Without this the connection is encrypted, but the peer may
        /// be anybody.
        bool verify = true;
        /// A PEM file of authorities to trust. Empty: those of the system (OpenSSL's default paths;
        /// SSL_CERT_FILE and SSL_CERT_DIR in the environment).
        std::string authorities_file{};
        /// Presented to servers that ask for a certificate. Empty: none.
        Identity identity{};
        /// The protocols to offer, the preferred one first (RFC 7301): "h2", "http/1.1".
        std::vector<std::string> alpn{};
        Version oldest = Version::tls_1_2;
        Version newest = Version::tls_1_3;
        /// How many servers to keep a session for. A connection that resumes a session skips the
        /// certificates, and saves a round trip in TLS 1.2. 0 turns resumption off.
        std::size_t sessions = 256;
    };

    /// The settings of a server.
    struct ServerOptions {
        Identity identity{};
        /// The protocols to accept, the preferred one first. A client that offers only others is
        /// refused (RFC 7301, section 3.2). One that offers nothing is accepted without a protocol.
        std::vector<std::string> alpn{};
        /// A PEM file of authorities that sign the certificates of clients. Empty: clients are not
        /// asked for one.
        std::string client_authorities_file{};
        /// Refuses clients without a certificate. Needs `client_authorities_file`.
        bool require_client_certificate = true;
        Version oldest = Version::tls_1_2;
        Version newest = Version::tls_1_3;
        /// Chooses the context of each connection by the name that the client asks for (SNI, RFC
        /// 6066). The name is empty if the client sends none. DNS names are case-insensitive. If
        /// the function returns an empty optional, this context is used. The connection takes
        /// everything but the keys of session tickets from the chosen context, whose own `select`
        /// is not called. An exception ends the handshake, and `accept` rethrows it. Called on the
        /// threads of the connections.
        std::function<std::optional<Context>(std::string_view server_name)> select{};
        /// The keys of session tickets. Empty: random keys that live as long as this context.
        std::optional<TicketKeys> ticket_keys{};
    };

    /// Errors: `invalid_argument` for options that contradict each other or an ALPN name that is
    /// empty or longer than 255 bytes, `no_such_file_or_directory` and the like, and
    /// `openssl_category` for a file that is not PEM or a key that does not match.
    [[nodiscard]] static Result<Context> client(const ClientOptions& options);
    [[nodiscard]] static Result<Context> client() { return client(ClientOptions()); }
    [[nodiscard]] static Result<Context> server(const ServerOptions& options);

    /// Replaces the settings of a server's context and of its copies, for example when certificates
    /// were renewed. Open connections are not changed. Later ones resume earlier sessions if the
    /// new options trust the same clients. Without `ticket_keys` the keys stay. After an error the
    /// context is unchanged. Blocks while it reads the files.
    ///
    /// Errors: as `server`, and `operation_not_supported` for the context of a client.
    [[nodiscard]] Result<> reload(const ServerOptions& options) const;

private:
    friend class detail::Engine;

    explicit Context(std::shared_ptr<detail::ContextCell> cell) noexcept : cell_(std::move(cell)) {}

    std::shared_ptr<detail::ContextCell> cell_;
};

} // namespace penstock::tls
