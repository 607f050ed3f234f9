#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

namespace penstock::http {

/// Which versions of HTTP a client speaks.
enum class ClientProtocol : std::uint8_t {
    negotiate, ///< HTTP/2 where an https server selects it (ALPN), HTTP/1.1 otherwise
    http_1_1,  ///< only HTTP/1.1
    /// HTTP/2 with prior knowledge, even without encryption (RFC 9113, section 3.3). With libcurl
    /// before 8.1, each request has its own connection.
    http_2_unasked,
};

/// How long the parts of a request may take. 0 means no limit. A request that takes longer fails
/// with `ClientError::timed_out`.
struct ClientTimeouts {
    /// For resolving the name, connecting, and the handshakes of TLS and of proxies.
    std::chrono::milliseconds connect{30'000};
    /// From the start of the request to the last byte of the response, including all redirects. It
    /// runs even while the program does not read.
    std::chrono::milliseconds whole{0};
    /// The longest time without a byte received, or sent and acknowledged, on an open connection.
    /// It does not run while the client waits for the program: while the response's buffer is full,
    /// or the next part of the request's body is not available.
    std::chrono::milliseconds idle{60'000};
};

/// Certificates of a client.
struct ClientTls {
    /// Refuses a server whose certificate is not signed by a trusted authority, or does not name
    /// the server. Without this the connection is encrypted, but the peer may be anybody.
    bool verify = true;
    /// A PEM file of authorities to trust. Empty: those of the system.
    std::string authorities_file{};
    /// A PEM file with the client's certificate, for servers that ask for one. Empty: none.
    std::string certificate_chain_file{};
    /// The PEM file of its private key. Empty: the key is in the same file.
    std::string private_key_file{};
    /// The password of the private key, if it has one.
    std::string private_key_password{};
};

/// The proxy of a client.
struct ClientProxy {
    /// "http://host:port", "https://...", "socks5://..." (the client resolves names) or
    /// "socks5h://..." (the proxy does), with a user name and password before the host if needed.
    /// Servers of https are reached through a tunnel (CONNECT). Empty: no proxy.
    std::string url{};
    /// Names of hosts that are reached directly, separated by commas: ".example.org,10.0.0.0/8".
    /// "*" means all of them.
    std::string except{};
    /// Takes `url` and `except` from the environment if they are empty: http_proxy, https_proxy,
    /// all_proxy and no_proxy, as curl(1) does.
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

/// The credentials of a request (Authorization). They are sent only to the request's own scheme,
/// host and port, and not after a redirect to others.
using Credentials = std::variant<std::monostate, BasicCredentials, BearerToken>;

/// The settings of a `Client`.
struct ClientOptions {
    ClientProtocol protocol = ClientProtocol::negotiate;
    /// The highest number of connections to one host and port, and in all. Further requests wait. 0
    /// means no limit.
    std::size_t connections_per_host = 16;
    std::size_t connections = 256;
    /// How many idle connections are kept for later requests, and for how long.
    std::size_t idle_connections = 64;
    std::chrono::seconds idle_connection_age{90};
    /// How many concurrent requests share one HTTP/2 connection. With libcurl before 8.1 it is one:
    /// there, a response may lose bytes while another request of the connection streams its body.
    std::size_t streams_per_connection = 100;
    /// Asks for compressed responses (gzip and deflate) and decompresses them. Data that is
    /// damaged, cut off or followed by other bytes is `ClientError::undecodable_body`. A request
    /// with its own Accept-Encoding or Range field gets the body as it was sent.
    bool compression = true;
    /// How many redirects a request follows. 0: none, and the redirecting response is the result.
    std::size_t redirects = 10;
    /// Keeps cookies in memory and sends them back (RFC 6265).
    bool cookies = false;
    ClientTimeouts timeouts{};
    ClientTls tls{};
    ClientProxy proxy{};
    /// The User-Agent field. Empty: none.
    std::string user_agent = "penstock";
    /// How many bytes of a response are kept until the program reads them, as they were received
    /// (compressed). At this size the client stops reading from the connection.
    ///
    /// An HTTP/2 connection goes on for the other responses. libcurl then also keeps what the
    /// server was allowed to send: up to 32 MiB for each response with libcurl 7.88.
    /// `ClientProtocol::http_1_1` avoids that.
    std::size_t buffer = std::size_t{256} * 1024;
    /// The largest whole body (`Client::fetch`), in bytes after decompression.
    std::size_t whole_body = std::size_t{64} * 1024 * 1024;
};

} // namespace penstock::http
