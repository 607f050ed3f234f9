// An HTTP server over TLS (https), with a WebSocket route (wss).

#include <penstock/http/server.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/http/errors.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/tls/encryption.hpp>
#include <penstock/ws/upgrade.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/http/running_server.hpp"
#include "coro/tls/tls_test.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using http::Request;
using http::Response;
using penstock::testing::expect;
using penstock::testing::read_until;
using TlsStream = tls::Stream<net::TcpStream>;

Task<Result<>> echo(ws::WebSocket& socket) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

class HttpServerOverTls : public penstock::testing::TlsTest {
protected:
    HttpServerOverTls() : site_(hooks()) {
        site_.get("/", [](Request&, Response& response) { response.body("secret"); });
        site_.get("/parts", [](Request&, Response& response) -> Task<Result<>> {
            for (const std::string_view part : {"one ", "two ", "three"}) {
                co_await unwrap(response.write_all(part));
            }
            co_return Result<>();
        });
        site_.post("/echo", [](Request& request, Response& response) -> Task<Result<>> {
            response.body(co_await unwrap(request.text()));
            co_return Result<>();
        });
        site_.upgrade("/chat", "websocket", ws::upgrade_handler(echo));
        folder_.fill("large", std::string(300'000, 'f'));
        expect(site_.files("/files", folder_.path("")));
    }

    /// Runs `talk(endpoint)` beside the server.
    template <typename Talk> void serve(const tls::Context& context, Talk talk) {
        const auto talking = [&](net::Endpoint endpoint) -> Task<Result<>> {
            co_await talk(endpoint);
            site_.stop(1h);
            co_return Result<>();
        };
        const auto program = [&]() -> Task<> {
            net::TcpListener listener = penstock::testing::listen_on_loopback();
            const net::Endpoint endpoint = expect(listener.local_endpoint());
            const auto prepare = [&](net::TcpStream stream) {
                return TlsStream::accept(std::move(stream), context);
            };
            expect(co_await all(site_.serve(std::move(listener), prepare), talking(endpoint)));
        };
        run(program());
        EXPECT_EQ(site_.connections(), 0);
    }

    static Task<Result<TlsStream>> dial(net::Endpoint endpoint, const tls::Context& context) {
        auto stream = co_await unwrap(net::TcpStream::connect(endpoint));
        co_return co_await TlsStream::connect(std::move(stream), context, "localhost");
    }

    /// All that the server sends until it closes.
    static Task<std::string> ask(net::Endpoint endpoint, const tls::Context& context,
                                 std::string request) {
        TlsStream stream = expect(co_await dial(endpoint, context));
        expect(co_await stream.write_all(request));
        co_return expect(co_await read_all_text(stream));
    }

    http::ServerOptions hooks() {
        http::ServerOptions options;
        options.on_failure = [this](const http::ServerFailure& failure) {
            // What strangers can cause is no failure of the server.
            EXPECT_EQ(failure.level, http::ServerFailure::Level::notice) << failure.to_string();
            failures_.push_back(failure.error);
        };
        return options;
    }

    std::vector<std::error_code> failures_;
    penstock::testing::TemporaryFolder folder_;
    http::Server site_;
};

std::string get(std::string_view path, std::string_view fields = "Connection: close\r\n") {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

TEST_F(HttpServerOverTls, AnswersWholeAndInParts) {
    serve(server(), [&](net::Endpoint endpoint) -> Task<void> {
        const tls::Context trusting = client();
        const std::string whole =
            co_await ask(endpoint, trusting, get("/", "") + get("/parts", "") + get("/"));
        EXPECT_EQ(whole.find("secret"), whole.find("\r\n\r\n") + 4);
        EXPECT_TRUE(whole.contains("\r\n\r\n4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\nHTTP"))
            << whole;
        EXPECT_TRUE(whole.ends_with("Connection: close\r\n\r\nsecret")) << whole;
        // Larger than a record, in both directions, and from a file.
        const std::string body(200'000, 'b');
        const std::string echoed = co_await ask(endpoint, trusting,
                                                "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: "
                                                "close\r\nContent-Length: 200000\r\n\r\n" +
                                                    body);
        EXPECT_TRUE(echoed.ends_with("\r\n\r\n" + body));
        const std::string file = co_await ask(endpoint, trusting, get("/files/large"));
        EXPECT_TRUE(file.ends_with("\r\n\r\n" + std::string(300'000, 'f')));
    });
    EXPECT_EQ(failures_, std::vector<std::error_code>());
}

TEST_F(HttpServerOverTls, AgreesOnItsProtocol) {
    serve(server({.alpn = {"http/1.1"}}), [&](net::Endpoint endpoint) -> Task<void> {
        TlsStream stream = expect(co_await dial(endpoint, client({.alpn = {"h2", "http/1.1"}})));
        EXPECT_EQ(stream.alpn(), "http/1.1");
        expect(co_await stream.write_all(get("/")));
        EXPECT_TRUE(expect(co_await read_all_text(stream)).ends_with("secret"));
        // A client that insists on another protocol is refused, and one without ALPN served.
        EXPECT_FALSE(co_await dial(endpoint, client({.alpn = {"h2"}})));
        EXPECT_TRUE((co_await ask(endpoint, client(), get("/"))).ends_with("secret"));
    });
    EXPECT_EQ(failures_.size(), 1);
}

TEST_F(HttpServerOverTls, SurvivesAPlainRequest) {
    serve(server(), [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream plain = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await plain.write_all(get("/")));
        std::string answer(100, '\0');
        while ((co_await plain.read(answer)).value_or(0) > 0) { // an alert, then the end
        }
        EXPECT_TRUE((co_await ask(endpoint, client(), get("/"))).ends_with("secret"));
    });
    EXPECT_EQ(failures_.size(), 1);
}

/// A client that gets an error where the connection ends without the end of the encrypted stream
/// (RFC 8446, section 6.1).
TEST_F(HttpServerOverTls, EndsTheStreamHoweverItEndsAnIdleConnection) {
    struct Case {
        std::string_view what;
        std::chrono::milliseconds idle;
        std::size_t connections;
        std::function<Task<void>(http::Server&, TlsStream&, net::Endpoint)> end;
    };
    const auto wait = [](http::Server&, TlsStream&, net::Endpoint) -> Task<void> { co_return; };
    const std::vector<Case> cases{
        {"it was idle for too long", 10ms, 10, wait},
        {"the server stops", 1h, 10,
         [](http::Server& server, TlsStream&, net::Endpoint) -> Task<void> {
             server.stop(1h);
             co_return;
         }},
        {"another one needs its place", 1h, 1,
         [&](http::Server&, TlsStream&, net::Endpoint endpoint) -> Task<void> {
             EXPECT_TRUE((co_await ask(endpoint, client(), get("/"))).ends_with("secret"));
         }},
        {"the client has ended its own", 1h, 10,
         [](http::Server&, TlsStream& stream, net::Endpoint) -> Task<void> {
             expect(co_await stream.shutdown());
         }},
    };
    for (const Case& each : cases) {
        SCOPED_TRACE(each.what);
        http::ServerOptions options = hooks();
        options.timeouts.idle = each.idle;
        options.timeouts.safe_idle = 0ms;
        options.limits.connections = each.connections;
        http::Server site(options);
        site.get("/", [](Request&, Response& response) { response.body("secret"); });
        const auto talk = [&](net::Endpoint endpoint) -> Task<Result<>> {
            TlsStream stream = expect(co_await dial(endpoint, client()));
            expect(co_await stream.write_all(get("/", "")));
            EXPECT_TRUE((co_await read_until(stream, "secret")).ends_with("secret"));
            co_await each.end(site, stream, endpoint);
            EXPECT_EQ(expect(co_await read_all_text(stream)), "");
            site.stop(1h);
            co_return Result<>();
        };
        const auto program = [&]() -> Task<> {
            net::TcpListener listener = penstock::testing::listen_on_loopback();
            const net::Endpoint endpoint = expect(listener.local_endpoint());
            expect(co_await all(site.serve(std::move(listener), tls::server_encryption(server())),
                                talk(endpoint)));
        };
        run(program());
    }
    EXPECT_EQ(failures_, std::vector<std::error_code>());
}

TEST_F(HttpServerOverTls, AnExceptionOfTheSelectionEndsItsHandshakeAlone) {
    std::vector<std::string> failures;
    http::ServerOptions options;
    options.on_failure = [&](const http::ServerFailure& failure) {
        failures.push_back(failure.to_string());
    };
    http::Server site(options);
    sync::Event asked;
    sync::Event released;
    site.get("/", [&](Request&, Response& response) -> Task<void> {
        asked.set();
        (void)co_await released.wait();
        response.body("secret");
    });
    const tls::Context context =
        server({.select = [](std::string_view name) -> std::optional<tls::Context> {
            if (name == "unknown") {
                throw std::runtime_error("no such name");
            }
            return std::nullopt;
        }});
    const auto innocent = [&](net::Endpoint endpoint) -> Task<Result<>> {
        EXPECT_TRUE((co_await ask(endpoint, client(), get("/"))).ends_with("secret"));
        site.stop(1h);
        co_return Result<>();
    };
    const auto stranger = [&](net::Endpoint endpoint) -> Task<Result<>> {
        (void)co_await asked.wait();
        auto stream = co_await unwrap(net::TcpStream::connect(endpoint));
        EXPECT_FALSE(co_await TlsStream::connect(std::move(stream), client(), "unknown"));
        released.set();
        co_return Result<>();
    };
    const auto program = [&]() -> Task<> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        expect(co_await all(site.serve(std::move(listener), tls::server_encryption(context)),
                            innocent(endpoint), stranger(endpoint)));
    };
    run(program());
    EXPECT_EQ(failures, std::vector<std::string>{"no such name"});
}

TEST_F(HttpServerOverTls, CarriesWebSockets) {
    serve(server({.alpn = {"http/1.1"}}), [&](net::Endpoint endpoint) -> Task<void> {
        auto socket = expect(co_await ws::WebSocket::connect(
            "wss://localhost:" + std::to_string(endpoint.port()) + "/chat",
            {.encrypt = tls::client_encryption(client())}));
        for (const std::size_t size : {1, 126, 100'000}) {
            const std::string text(size, 'x');
            expect(co_await socket.send_text(text));
            EXPECT_TRUE(expect(co_await socket.receive()).text() == text) << size;
        }
        expect(co_await socket.close());
        auto open = expect(co_await ws::WebSocket::connect(
            "wss://localhost:" + std::to_string(endpoint.port()) + "/chat",
            {.encrypt = tls::client_encryption(client())}));
        site_.stop(1h);
        EXPECT_EQ((co_await open.receive()).error(), ws::Error::closed);
        EXPECT_EQ(open.close_code(), ws::close_code::going_away);
    });
    EXPECT_EQ(failures_, std::vector<std::error_code>());
}

} // namespace
