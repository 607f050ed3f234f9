// A reverse proxy: passes requests on to another server, and its responses back. Bodies go through
// as they come, in both directions, so the memory of the proxy does not depend on their size, and
// a slow end slows the other one down. Ends at SIGINT or SIGTERM.
//
//     reverse_proxy PORT http://HOST:PORT

#include <penstock/http.hpp>
#include <penstock/http/client.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace penstock;
using namespace std::chrono_literals;

namespace {

/// Whether a field is about the message, and not about one of its two connections (RFC 9110,
/// section 7.6.1).
bool passes(std::string_view name, const auto& fields) {
    constexpr std::array<std::string_view, 11> kept{"connection",
                                                    "content-length",
                                                    "expect",
                                                    "host",
                                                    "keep-alive",
                                                    "proxy-authenticate",
                                                    "proxy-authorization",
                                                    "te",
                                                    "trailer",
                                                    "transfer-encoding",
                                                    "upgrade"};
    return std::ranges::none_of(kept,
                                [name](std::string_view each) {
                                    return std::ranges::equal(each, name, {}, {}, [](char c) {
                                        return c >= 'A' && c <= 'Z'
                                                   ? static_cast<char>(c - 'A' + 'a')
                                                   : c;
                                    });
                                }) &&
           !fields.has_token("Connection", name);
}

http::ClientRequest asked_of(http::Request& request, const std::string& origin) {
    http::ClientRequest asked{.url = origin + std::string(request.path()),
                              .method = request.method()};
    if (!request.query().empty()) {
        asked.url.append("?").append(request.query());
    }
    for (const http::Field& field : request.fields()) {
        if (passes(field.name, request.fields())) {
            asked.headers.add(field.name, field.value);
        }
    }
    if (const auto peer = request.peer_endpoint()) { // behind those of proxies before this one
        asked.headers.add("X-Forwarded-For", peer->address());
    }
    asked.headers.set("X-Forwarded-Proto", request.encryption() ? "https" : "http");
    asked.headers.set("X-Forwarded-Host", request.host());
    if (request.has_body()) {
        asked.body = http::RequestBody::stream_of(request, request.content_length());
    }
    return asked;
}

Task<Result<>> pass_on(http::Request& request, http::Response& response, http::Client& client,
                       const std::string& origin) {
    Result<http::ClientResponse> answer = co_await client.send(asked_of(request, origin));
    if (!answer && answer.error().category() != http::client_error_category()) {
        co_return failure(answer.error()); // of the client's body, or the client has gone
    }
    if (!answer) {
        response.refuse(answer.error() == http::ClientError::timed_out
                            ? http::Status::gateway_timeout
                            : http::Status::bad_gateway);
        co_return Result<>();
    }
    response.status(answer->status());
    for (const http::Field& field : answer->headers()) {
        if (passes(field.name, answer->headers())) {
            response.headers().add(field.name, field.value);
        }
    }
    if (const auto length = answer->headers().find("Content-Length")) {
        std::uint64_t size = 0;
        std::from_chars(length->data(), length->data() + length->size(), size);
        response.content_length(size);
    }
    if (request.method() != http::Method::head) {
        co_await unwrap(copy(*answer, response));
    }
    co_return Result<>();
}

Task<Result<>> serve(std::uint16_t port, std::string origin) {
    // What the server says is passed on as it is: compressed, and if it is a redirect.
    http::Client client({.connections_per_host = 0,
                         .connections = 0,
                         .compression = false,
                         .redirects = 0,
                         .user_agent = ""});
    http::Server server;
    const auto handler = [&](http::Request& request, http::Response& response) {
        return pass_on(request, response, client, origin);
    };
    for (const http::Method method :
         {http::Method::get, http::Method::post, http::Method::put, http::Method::patch,
          http::Method::delete_, http::Method::options}) {
        server.route(method, "/{path...}", handler, {.body_limit = std::uint64_t{1} << 40});
    }
    auto listener = co_await unwrap(net::TcpListener::listen(net::Endpoint::loopback(port)));
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    co_return co_await until_signal(server.serve(std::move(listener)), [&] {
        std::puts("stopping");
        std::fflush(stdout);
        server.stop(5s);
    });
}

} // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::fputs("usage: reverse_proxy PORT http://HOST:PORT\n", stderr);
        return 2;
    }
    const auto port = static_cast<std::uint16_t>(std::atoi(arguments[1]));
    if (const Result<> served = run(serve(port, arguments[2])); !served) {
        std::fprintf(stderr, "reverse_proxy: %s\n", served.error().message().c_str());
        return 1;
    }
    std::puts("stopped");
}
