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

/// A certificate chain and its private key, in PEM files. The own certificate comes first.
struct Identity {
    std::string certificate_chain_file{};
    std::string private_key_file{};
};

/// The settings of the connections of a client or a server: which certificates it trusts and shows,
/// protocol versions, ALPN, and the sessions to resume. Copies share one state. With one that was
/// moved from, connections fail with `invalid_argument`.
///
/// Thread safety: any thread may use it once it is made.
class Context {
public:
    struct ClientOptions {
        /// Refuses a server whose certificate is not signed by a trusted authority, or does not
        /// name the server (RFC 6125). Without it, the peer of an encrypted connection is unknown.
        bool verify = true;
        /// A PEM file of authorities to trust. Empty: those of the system (OpenSSL's default paths;
        /// SSL_CERT_FILE and SSL_CERT_DIR in the environment).
        std::string authorities_file{};
        /// Shown to servers that ask for a certificate. Empty: none.
        Identity identity{};
        /// The protocols to offer, the preferred one first (RFC 7301): "h2", "http/1.1".
        std::vector<std::string> alpn{};
        Version oldest = Version::tls_1_2;
        Version newest = Version::tls_1_3;
        /// How many servers to keep a session for. A connection to one of them skips the
        /// certificates and saves a round trip in TLS 1.2. 0 turns it off.
        std::size_t sessions = 256;
    };

    struct ServerOptions {
        Identity identity{};
        /// The protocols to accept, the preferred one first. A client that offers none of them is
        /// refused (RFC 7301, section 3.2), and one that offers nothing gets none.
        std::vector<std::string> alpn{};
        /// A PEM file of authorities that sign the certificates of clients. Empty: clients are not
        /// asked for one.
        std::string client_authorities_file{};
        /// Refuses clients without a certificate. Needs `client_authorities_file`.
        bool require_client_certificate = true;
        Version oldest = Version::tls_1_2;
        Version newest = Version::tls_1_3;
        /// Chooses the context of each connection by the name that the client asks for (SNI, RFC
        /// 6066), which is empty if it sends none. Names are compared without regard to case. If
        /// it returns nothing, this context is used. Everything but the keys of session tickets
        /// comes from the chosen context, whose own `select` is not called. An exception ends the
        /// handshake, and `accept` rethrows it. Called on the threads of the connections.
        std::function<std::optional<Context>(std::string_view server_name)> select{};
        /// Of session tickets. Nothing: keys of this context's own, for its whole life.
        std::optional<TicketKeys> ticket_keys{};
    };

    /// Errors: `invalid_argument` for options that contradict each other or an ALPN name that is
    /// empty or longer than 255 bytes, `no_such_file_or_directory` and the like, and
    /// `openssl_category` for a file that is not PEM or a key that does not match.
    [[nodiscard]] static Result<Context> client(const ClientOptions& options);
    [[nodiscard]] static Result<Context> client() { return client(ClientOptions()); }
    [[nodiscard]] static Result<Context> server(const ServerOptions& options);

    /// Replaces everything in the context of a server, and so in its copies: for certificates that
    /// were renewed. Connections that exist go on as they are. Later ones resume earlier sessions
    /// if the new options trust the same clients. Without `ticket_keys` the keys stay. After an
    /// error all stays as it was. Blocks while it reads the files.
    ///
    /// Errors: as `server`, and `operation_not_supported` for the context of a client.
    [[nodiscard]] Result<> reload(const ServerOptions& options) const;

private:
    friend class detail::Engine;

    explicit Context(std::shared_ptr<detail::ContextCell> cell) noexcept : cell_(std::move(cell)) {}

    std::shared_ptr<detail::ContextCell> cell_;
};

} // namespace penstock::tls
