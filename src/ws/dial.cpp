#include <penstock/ws/detail/dial.hpp>

#include <array>
#include <utility>

#include <penstock/codec/http/head_writer.hpp>
#include <penstock/codec/http/response_parser.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/detail/handshake.hpp>
#include <penstock/ws/errors.hpp>

#include "codec/base64.hpp"

namespace penstock::ws::detail {

namespace http = codec::http;

namespace {

/// The request for a tunnel (RFC 9110, section 9.3.6). Empty for texts that a head cannot have.
std::string tunnel_request(const Url& url, const Proxy& proxy) {
    const bool is_address = url.host.find(':') != std::string::npos;
    const std::string target =
        (is_address ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
    std::string authorization;
    if (!proxy.credentials.empty()) {
        constexpr std::string_view scheme = "Basic ";
        authorization.resize(scheme.size() + codec::base64_size(proxy.credentials.size()));
        scheme.copy(authorization.data(), scheme.size());
        codec::encode_base64(Bytes(proxy.credentials), authorization.data() + scheme.size());
    }
    std::string buffer(256 + 2 * target.size() + authorization.size(), '\0');
    http::HeadWriter head(buffer);
    head.request("CONNECT", target).field("Host", target);
    if (!authorization.empty()) {
        head.field("Proxy-Authorization", authorization);
    }
    head.end();
    return head.failed() ? std::string() : std::string(head.text());
}

/// Asks the proxy for a tunnel to the server. After the head of its answer follow the server's
/// bytes. None are expected before the client's, so they would be a violation.
Task<Result<>> make_tunnel(AnyStream& stream, const Url& url, const Proxy& proxy,
                           const ConnectOptions& options) {
    const std::string request = tunnel_request(url, proxy);
    if (request.empty()) {
        co_return failure(std::errc::invalid_argument);
    }
    co_await unwrap(stream.write_all(request));
    std::array<http::Field, maximum_fields> storage;
    http::ResponseParser parser(storage, head_limits);
    std::array<char, 1024> buffer{};
    std::string received;
    for (;;) {
        const std::size_t count = co_await unwrap(stream.read(buffer));
        if (count == 0) {
            co_return failure(Error::truncated);
        }
        received.append(buffer.data(), count);
        switch (parser.parse(received, http::ResponseParser::To::connect)) {
        case http::Progress::incomplete:
            continue;
        case http::Progress::failed:
            co_return failure(Error::invalid_http);
        case http::Progress::complete:
            break;
        }
        if (parser.head().status < 200 || parser.head().status > 299) {
            if (options.on_refusal) {
                options.on_refusal(parser.head());
            }
            co_return failure(Error::proxy_refused);
        }
        co_return parser.head().size == received.size() ? Result<>()
                                                        : failure(Error::protocol_violation);
    }
}

} // namespace

Task<Result<AnyStream>> dial(const Url& url, const ConnectOptions& options) {
    Proxy proxy;
    if (!options.proxy.empty()) {
        proxy = co_await unwrap(parse_proxy(options.proxy));
    }
    if ((url.secure || proxy.secure) && !options.encrypt) {
        co_return failure(std::errc::protocol_not_supported);
    }
    AnyStream stream;
    if (options.proxy.empty()) {
        stream = co_await unwrap(net::TcpStream::connect(url.host, url.port));
    } else {
        stream = co_await unwrap(net::TcpStream::connect(proxy.host, proxy.port));
        if (proxy.secure) {
            stream = co_await unwrap(options.encrypt(std::move(stream), proxy.host));
        }
        co_await unwrap(make_tunnel(stream, url, proxy, options));
    }
    if (url.secure) {
        co_return co_await options.encrypt(std::move(stream), url.host);
    }
    co_return stream;
}

} // namespace penstock::ws::detail
