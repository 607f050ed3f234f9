#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

namespace penstock::http {

/// Which versions of HTTP a client speaks.
enum class ClientProtocol : std::uint8_t {
    negotiate, ///< HTTP/2 where a server of https offers it (ALPN), HTTP/1.1 otherwise
    http_1_1,  ///< only HTTP/1.1
    /// HTTP/2 at once, even without encryption (RFC 9113, section 3.3). With libcurl before 8.1,
    /// each request has a connection of its own.
    http_2_unasked,
};

/// How long the parts of a request may take. 0 means no limit. A request that takes longer fails
/// with `ClientError::timed_out`.
struct ClientTimeouts {
    /// To resolve the name, to connect, and for the handshakes of TLS and of proxies.
    std::chrono::milliseconds connect{30'000};
    /// From the start of the request to the last byte of its response, with all redirects. Runs
    /// also while the program does not read.
    std::chrono::milliseconds whole{0};
    /// For how long no byte may arrive or leave, once there is a connection. Does not run while the
    /// program is awaited: while the response's buffer is full, or the next part of the request's
    /// body is not there yet. A byte has left when the server has acknowledged it.
    std::chrono::milliseconds idle{60'000};
};

/// Certificates of a client.
struct ClientTls {
    /// Refuses a server whose certificate is not signed by a trusted authority, or does not name
    /// the server. Without it a connection is encrypted, but to anybody.
    bool verify = true;
    /// A PEM file of authorities to trust. Empty: those of the system.
    std::string authorities_file{};
    /// A PEM file that is shown to servers that ask for a certificate. Empty: none.
    std::string certificate_chain_file{};
    /// The PEM file of its private key. Empty: the key is in the same file.
    std::string private_key_file{};
    /// The password of the private key, if it has one.
    std::string private_key_password{};
};

/// The way to the servers.
struct ClientProxy {
    /// "http://host:port", "https://...", "socks5://..." (the client resolves names) or
    /// "socks5h://..." (the proxy does), with a user name and password before the host if needed.
    /// Servers of https are reached through a tunnel (CONNECT). Empty: no proxy.
    std::string url{};
    /// Names of hosts that are reached directly, separated by commas: ".example.org,10.0.0.0/8".
    /// "*" is all of them.
    std::string except{};
    /// Takes the two above from the environment: http_proxy, https_proxy, all_proxy, no_proxy, as
    /// curl(1) does. What is set above has priority.
    bool from_environment = false;
};

/// A user name and a password (RFC 7617). Without https, others on the network can read them.
struct BasicCredentials {
    std::string user{};
    std::string password{};
};

/// A token (RFC 6750).
struct BearerToken {
    std::string token{};
};

/// What a request shows to be let in. Sent only to the request's own scheme, host and port, not to
/// those that it is redirected to.
using Credentials = std::variant<std::monostate, BasicCredentials, BearerToken>;

/// The settings of a `Client`.
struct ClientOptions {
    ClientProtocol protocol = ClientProtocol::negotiate;
    /// The most connections to one host and port, and in all. Further requests wait. 0 means no
    /// limit.
    std::size_t connections_per_host = 16;
    std::size_t connections = 256;
    /// How many idle connections are kept for later requests, and for how long.
    std::size_t idle_connections = 64;
    std::chrono::seconds idle_connection_age{90};
    /// How many requests share a connection with HTTP/2. With libcurl before 8.1 one does: a
    /// response would lose bytes while a request beside it streams its body.
    std::size_t streams_per_connection = 100;
    /// Asks for compressed responses and decompresses them: gzip and deflate. Data that are damaged
    /// or cut off, or have bytes behind their end, are `ClientError::undecodable_body`. A request
    /// that has an Accept-Encoding or Range field of its own gets the body as it was sent.
    bool compression = true;
    /// How many redirects a request follows. 0: the response that redirects is the result.
    std::size_t redirects = 10;
    /// Keeps cookies in memory and sends them back (RFC 6265).
    bool cookies = false;
    ClientTimeouts timeouts{};
    ClientTls tls{};
    ClientProxy proxy{};
    /// The User-Agent field. Empty: none.
    std::string user_agent = "penstock";
    /// How many bytes of a response wait for the program. More than that stops the connection from
    /// reading. Compressed data wait compressed.
    ///
    /// With HTTP/2, other responses may be read from the same connection. libcurl then also keeps
    /// what the server was allowed to send: up to 32 MiB for each response with libcurl 7.88.
    /// `ClientProtocol::http_1_1` avoids that.
    std::size_t buffer = std::size_t{256} * 1024;
    /// The most bytes of a whole body (`Client::fetch`), decompressed.
    std::size_t whole_body = std::size_t{64} * 1024 * 1024;
};

} // namespace penstock::http
