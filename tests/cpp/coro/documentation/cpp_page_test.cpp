// The programs of docs/cpp.md as they stand there: tests/python/documentation/test_cpp_page.py
// compares them. Those whose peers are on this machine run here. The others are only compiled.

#include <penstock/http/client.hpp>
#include <penstock/http/content.hpp>
#include <penstock/http/cookie.hpp>
#include <penstock/http/event_stream.hpp>
#include <penstock/http/filter/authorization.hpp>
#include <penstock/http/filter/chain.hpp>
#include <penstock/http/filter/cors.hpp>
#include <penstock/http/filter/rate_limit.hpp>
#include <penstock/http/filter/security_headers.hpp>
#include <penstock/http/filter/time_limit.hpp>
#include <penstock/http/form.hpp>
#include <penstock/http/json.hpp>
#include <penstock/http/metrics.hpp>
#include <penstock/http/status_error.hpp>
#include <penstock/tls/encryption.hpp>
#include <penstock/tls/stream.hpp>
#include <penstock/ws.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#if __has_include(<nlohmann/json.hpp>)
#include <penstock/http/nlohmann_json.hpp>
#endif

#include "coro/http/running_server.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/temporary_folder.hpp"

// NOLINTBEGIN(misc-use-internal-linkage): a page shows functions without their namespace.

#include <penstock/penstock.hpp>

using namespace penstock;

Task<void> echo(net::TcpStream stream) {
    for (;;) {
        const Result<Chunk> chunk = co_await stream.receive();
        if (!chunk || chunk->empty() || !co_await stream.write_all(*chunk)) {
            co_return;
        }
    }
}

Task<Result<std::string>> greeting(std::string host) {
    net::TcpStream stream = co_await unwrap(net::TcpStream::connect(std::move(host), 7));
    co_await unwrap(stream.write_all("hello\n"));
    co_await unwrap(stream.shutdown());
    co_return co_await read_all_text(stream);
}

namespace serial_page {

Task<Result<>> ask(std::string_view question) {
    Result<serial::Port> bus = serial::Port::open(
        "/dev/ttyUSB0", {.baud_rate = 19'200, .rs485 = serial::Rs485{.software = true}});
    if (!bus) {
        co_return failure(bus.error());
    }
    co_return co_await bus->write_all(question);
}

} // namespace serial_page

namespace websocket_page {

Task<Result<>> echo(ws::WebSocket& socket) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

Task<Result<>> serve(const tls::Context& context) {
    ws::ServerOptions options;
    options.accept.compression = ws::deflate();        // link penstock::deflate
    options.encrypt = tls::server_encryption(context); // link penstock::tls
    auto server = co_await unwrap(ws::Server::listen(net::Endpoint::any(443), options));
    co_return co_await server.serve(echo); // until server.shutdown(5s)
}

Task<Result<>> ask(const tls::Context& context) {
    auto socket = co_await unwrap(ws::WebSocket::connect(
        "wss://example.org/feed", {.compression = ws::deflate(),
                                   .encrypt = tls::client_encryption(context),
                                   .proxy = "http://proxy.example:3128"}));
    co_await unwrap(socket.send_text("hello"));
    const ws::Message answer = co_await unwrap(socket.receive());
    std::printf("%s\n", std::string(answer.text()).c_str());
    co_return co_await socket.close();
}

} // namespace websocket_page

namespace http_server_page {

using websocket_page::echo;

Task<Result<>> upload(http::Request& request, http::Response& response) {
    fs::File file = co_await unwrap(fs::File::open("upload", fs::OpenOptions::writing()));
    const std::uint64_t size = co_await unwrap(copy(request, file)); // piece by piece
    response.body(std::to_string(size) + " bytes\n");
    co_return Result<>();
}

Task<Result<>> serve(const tls::Context& context) {
    http::Server server;
    server.get("/hello/{name}", [](http::Request& request, http::Response& response) {
        response.body("Hello, " + request.parameter("name") + "\n");
    });
    server.put("/upload", upload, {.body_limit = 1 << 30});
    server.upgrade("/chat", "websocket", ws::upgrade_handler(echo)); // the same port
    co_await unwrap(server.files("/static", "/srv/www"));
    auto listener = co_await unwrap(net::TcpListener::listen(net::Endpoint::any(443)));
    co_return co_await server.serve(std::move(listener),
                                    tls::server_encryption(context)); // or without the second
}

} // namespace http_server_page

namespace http_form_page {

Task<Result<>> receive_form(http::Request& request, http::Response& response) {
    std::string title;
    std::uint64_t bytes = 0;
    http::MultipartForm form(request, {.parts = 10, .value = 1000});
    while (auto part = co_await unwrap(form.next())) {
        if (part->file_name()) {
            fs::File file = co_await unwrap(fs::File::open("upload", fs::OpenOptions::writing()));
            bytes += co_await unwrap(copy(*part, file)); // as the client sends it
        } else if (part->name() == "title") {
            title = co_await unwrap(part->text());
        }
    }
    response.body(title + ": " + std::to_string(bytes) + " bytes\n");
    co_return Result<>();
}

} // namespace http_form_page

namespace http_cookie_page {

void log_in(http::Request& request, http::Response& response) {
    const auto session = http::find_cookie(request.fields(), "__Host-session");
    response.body(session ? "known\n" : "new\n");
    http::set_cookie(response, {.name = "__Host-session",
                                .value = "c2Vzc2lvbg",
                                .path = "/",
                                .max_age = std::chrono::hours(24),
                                .secure = true,
                                .http_only = true,
                                .same_site = http::SameSite::lax});
}

} // namespace http_cookie_page

namespace http_events_page {

http::EventSourceHandler prices_of(Channel<std::string>& prices) {
    return http::event_stream([&prices](http::EventStream& events) -> Task<Result<>> {
        co_await unwrap(events.send({.data = events.last_event_id().value_or("first"), .id = "0"}));
        for (;;) {
            const std::string price = co_await unwrap(prices.receive());
            co_await unwrap(events.send(price)); // waits while the client is slow
        }
    });
}

} // namespace http_events_page

#if __has_include(<nlohmann/json.hpp>)
Task<Result<>> add_up(http::Request& request, http::Response& response) {
    const auto value = co_await unwrap(http::read_json<nlohmann::json>(request));
    if (!value.contains("a")) {
        throw http::StatusError(http::Status::unprocessable_content, "there is no \"a\"");
    }
    http::write_json(response, nlohmann::json{{"sum", value.at("a").get<int>() + 1}});
    co_return Result<>();
}
#endif

namespace http_content_page {

Task<Result<>> send_report(http::Request& request, http::Response& response) {
    static const std::string report(100'000, 'x'); // or an fs::File, or any type with read_at
    co_return co_await http::send_content(
        request, response, {.content_type = "text/plain", .entity_tag = "\"7\""}, Bytes(report));
}

} // namespace http_content_page

namespace http_filters_page {

http::ServerOptions for_browsers() {
    http::ServerOptions options;
    options.gate =
        http::gates(http::SecurityHeaders(), http::Cors({.origins = {"https://app.example"}}),
                    http::RateLimit({.requests = 100, .burst = 200}));
    return options;
}

void add_api(http::Server& server, const std::string& token) {
    const http::BearerAuthorization known("api", token);
    const auto report = [](http::Request&, http::Response& response) -> Task<Result<>> {
        response.body("all is well\n");
        co_return Result<>();
    };
    server.get("/report", http::chain(known, http::TimeLimit(std::chrono::seconds(5)), report));
}

} // namespace http_filters_page

namespace http_metrics_page {

http::ServerOptions counted(const std::shared_ptr<http::Metrics>& metrics) {
    http::ServerOptions options;
    options.metrics = metrics;
    return options;
}

void add_metrics(http::Server& server, std::shared_ptr<http::Metrics> metrics) {
    server.get("/metrics", http::metrics_page(std::move(metrics)));
    server.get("/connections", [&server](http::Request&, http::Response& response) {
        std::string text;
        for (const http::OpenConnection& each : server.open_connections()) {
            text += each.peer ? each.peer->to_string() : "unknown";
            text += " " + std::to_string(each.requests) + " " + each.request + "\n";
        }
        response.body(std::move(text));
    });
}

} // namespace http_metrics_page

namespace session_page {

Task<Result<>> follow(std::string url) {
    ws::WebSocketSession session(std::move(url), {.on_failure = [](std::error_code error) {
                                     std::fprintf(stderr, "%s\n", error.message().c_str());
                                 }});
    co_await unwrap(session.subscribe("trades", R"({"subscribe": "trades"})"));
    for (;;) {
        const ws::Message message = co_await unwrap(session.receive());
        std::printf("%s\n", std::string(message.text()).c_str());
    }
}

} // namespace session_page

namespace topics_page {

Task<Result<>> chat(ws::WebSocket& socket, ws::Subscriber& self) {
    self.subscribe("room");
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        self.topics().publish("room", message.text());
    }
}

void add_chat(http::Server& server, ws::Topics& topics) { // or with ws::Server::serve
    server.upgrade("/chat", "websocket",
                   ws::upgrade_handler(ws::with_topics(
                       topics, chat, {.slow_reader = ws::SlowReader::drop_oldest})));
}

} // namespace topics_page

namespace callbacks_page {

struct Guest {
    void on_open(ws::CallbackSocket& socket) { socket.subscribe(topics, "room"); }
    void on_message(ws::CallbackSocket& socket, const ws::Message& message) {
        if (socket.send(message) == ws::Sent::dropped) {
            socket.close(ws::close_code::try_again_later);
        }
        topics.publish("room", message.text());
    }
    void on_drain(ws::CallbackSocket& /*socket*/) {} // all that waited was sent
    void on_close(ws::CallbackSocket& /*socket*/, std::uint16_t code, std::string_view reason) {
        std::printf("%d %s\n", code, std::string(reason).c_str());
    }

    ws::Topics& topics;
};

void add_guests(http::Server& server, ws::Topics& topics) { // or ws::Server::serve(callbacks)
    const ws::Callbacks guests([&topics] { return Guest{.topics = topics}; });
    server.upgrade("/guests", "websocket", ws::upgrade_handler(guests));
}

} // namespace callbacks_page

namespace http_client_page {

Task<Result<>> report(http::Client& client, std::string text) {
    const http::FetchedResponse answer = co_await unwrap(client.post(
        "https://example.org/reports", std::move(text), {{"Content-Type", "application/json"}}));
    std::printf("%d %s\n", http::code(answer.status), answer.body.c_str());
    co_return Result<>();
}

Task<Result<>> save(http::Client& client, std::string url, fs::File& file) {
    http::ClientResponse response = co_await unwrap(client.send({.url = std::move(url)}));
    co_await unwrap(copy(response, file));
    co_return Result<>();
}

} // namespace http_client_page

// NOLINTEND(misc-use-internal-linkage)

namespace {

using penstock::testing::connect_pair;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::TcpPair;
using penstock::testing::TemporaryFolder;
using penstock::testing::with_server;

Task<void> expect_echo(net::TcpStream stream) {
    expect(co_await stream.write_all("first byte\n"));
    std::string answer(11, ' ');
    expect(co_await stream.read_exactly(answer));
    EXPECT_EQ(answer, "first byte\n");
    expect(stream.shutdown());
}

TEST(CppPage, EchoSendsBackWhatArrives) {
    const auto body = []() -> Task<void> {
        TcpPair pair = co_await connect_pair();
        (void)co_await all(echo(std::move(pair.far)), expect_echo(std::move(pair.near)));
    };
    run(body());
}

TEST(CppPage, UploadIsWrittenIntoAFile) {
    const TemporaryFolder folder;
    std::filesystem::current_path(folder.path(""));
    http::Server server;
    server.put("/upload", http_server_page::upload, {.body_limit = 1 << 30});
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string answer = co_await exchange(
            endpoint, "PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nbytes");
        EXPECT_TRUE(answer.ends_with("5 bytes\n")) << answer;
    });
    EXPECT_EQ(folder.content("upload"), "bytes");
}

TEST(CppPage, FormIsReadAsAStream) {
    const TemporaryFolder folder;
    std::filesystem::current_path(folder.path(""));
    http::Server server;
    server.post("/form", http_form_page::receive_form);
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string form = "--b\r\nContent-Disposition: form-data; name=title\r\n\r\nnew"
                                 "\r\n--b\r\nContent-Disposition: form-data; name=f; filename=x"
                                 "\r\n\r\nbytes\r\n--b--\r\n";
        const std::string answer = co_await exchange(
            endpoint, "POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; "
                      "boundary=b\r\nContent-Length: " +
                          std::to_string(form.size()) + "\r\n\r\n" + form);
        EXPECT_TRUE(answer.ends_with("new: 5 bytes\n")) << answer;
    });
    EXPECT_EQ(folder.content("upload"), "bytes");
}

TEST(CppPage, CookieIsSetAndRead) {
    http::Server server;
    server.get("/", http_cookie_page::log_in);
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string answer = co_await exchange(
            endpoint, "GET / HTTP/1.1\r\nHost: a\r\nCookie: __Host-session=x\r\n\r\n");
        EXPECT_NE(answer.find("Set-Cookie: __Host-session=c2Vzc2lvbg; Max-Age=86400; Path=/; "
                              "Secure; HttpOnly; SameSite=Lax\r\n"),
                  std::string::npos)
            << answer;
        EXPECT_TRUE(answer.ends_with("known\n"));
    });
}

TEST(CppPage, EventsReachTheClient) {
    Channel<std::string> prices(1);
    http::ServerOptions options;
    options.on_failure = [](const http::ServerFailure&) {}; // the channel's end
    http::Server server(std::move(options));
    server.get("/prices", http_events_page::prices_of(prices));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all("GET /prices HTTP/1.0\r\n\r\n"));
        expect(co_await prices.send("12"));
        const std::string answer = co_await read_until(stream, "data: 12\n\n");
        EXPECT_TRUE(answer.ends_with("\r\n\r\nid: 0\ndata: first\n\ndata: 12\n\n")) << answer;
        prices.close();
    });
}

TEST(CppPage, FiltersStandBeforeAReport) {
    http::Server server(http_filters_page::for_browsers());
    http_filters_page::add_api(server, "secret");
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string answers =
            co_await exchange(endpoint, "GET /report HTTP/1.1\r\nHost: a\r\n\r\n"
                                        "GET /report HTTP/1.1\r\nHost: a\r\n"
                                        "Authorization: Bearer secret\r\n\r\n");
        EXPECT_TRUE(answers.starts_with("HTTP/1.1 401 ")) << answers;
        EXPECT_NE(answers.find("X-Frame-Options: DENY\r\n"), std::string::npos) << answers;
        EXPECT_TRUE(answers.ends_with("all is well\n")) << answers;
    });
}

TEST(CppPage, AServerTellsWhatItDoes) {
    const auto metrics = std::make_shared<http::Metrics>();
    http::Server server(http_metrics_page::counted(metrics));
    http_metrics_page::add_metrics(server, metrics);
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string answers =
            co_await exchange(endpoint, "GET /connections HTTP/1.1\r\nHost: a\r\n\r\n"
                                        "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        EXPECT_NE(answers.find(" 1 GET /connections\n"), std::string::npos) << answers;
        EXPECT_NE(answers.find("route=\"/connections\",status=\"200\"} 1\n"), std::string::npos)
            << answers;
    });
}

TEST(CppPage, AChatReachesItsWriter) {
    ws::Topics topics;
    http::Server server;
    topics_page::add_chat(server, topics);
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string url = "ws://127.0.0.1:" + std::to_string(endpoint.port()) + "/chat";
        auto socket = expect(co_await ws::WebSocket::connect(url));
        expect(co_await socket.send_text("hello"));
        EXPECT_EQ(expect(co_await socket.receive()).text(), "hello");
        expect(co_await socket.close());
    });
}

TEST(CppPage, AGuestHearsHimself) {
    ws::Topics topics;
    http::Server server;
    callbacks_page::add_guests(server, topics);
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string url = "ws://127.0.0.1:" + std::to_string(endpoint.port()) + "/guests";
        auto socket = expect(co_await ws::WebSocket::connect(url));
        expect(co_await socket.send_text("hello"));
        EXPECT_EQ(expect(co_await socket.receive()).text(), "hello");
        EXPECT_EQ(expect(co_await socket.receive()).text(), "hello");
        expect(co_await socket.close());
    });
}

TEST(CppPage, AFollowerEndsWhereNothingIsToBeFollowed) {
    http::Server server;
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string url = "ws://127.0.0.1:" + std::to_string(endpoint.port()) + "/none";
        EXPECT_EQ((co_await session_page::follow(url)).error(),
                  ws::HandshakeError::unexpected_status);
    });
}

TEST(CppPage, PartOfAReportIsSent) {
    http::Server server;
    server.get("/report", http_content_page::send_report);
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string answer = co_await exchange(
            endpoint, "GET /report HTTP/1.1\r\nHost: a\r\nRange: bytes=5-7\r\n\r\n");
        EXPECT_TRUE(answer.ends_with("\r\n\r\nxxx")) << answer;
    });
}

#if __has_include(<nlohmann/json.hpp>)
TEST(CppPage, JsonIsReadAndWritten) {
    http::Server server;
    server.post("/sum", add_up);
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        const std::string answer = co_await exchange(
            endpoint, "POST /sum HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                      "Content-Length: 7\r\n\r\n{\"a\":1}");
        EXPECT_TRUE(answer.ends_with("\r\n\r\n{\"sum\":2}")) << answer;
        const std::string other = co_await exchange(
            endpoint, "POST /sum HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                      "Content-Length: 2\r\n\r\n[]");
        EXPECT_TRUE(other.starts_with("HTTP/1.1 422 ")) << other;
    });
}
#endif

TEST(CppPage, ResponseIsCopiedIntoAFile) {
    const TemporaryFolder folder;
    http::Server server;
    server.get("/text", [](http::Request&, http::Response& response) { response.body("text"); });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        http::Client client;
        fs::File file =
            expect(co_await fs::File::open(folder.path("saved"), fs::OpenOptions::writing()));
        expect(co_await http_client_page::save(
            client, "http://127.0.0.1:" + std::to_string(endpoint.port()) + "/text", file));
    });
    EXPECT_EQ(folder.content("saved"), "text");
}

TEST(CppPage, WebSocketEchoesMessages) {
    const auto ask = [](ws::Server& server) -> Task<Result<>> {
        const std::uint16_t port = expect(server.local_endpoint()).port();
        auto socket =
            co_await unwrap(ws::WebSocket::connect("ws://127.0.0.1:" + std::to_string(port)));
        co_await unwrap(socket.send_text("hello"));
        const ws::Message answer = co_await unwrap(socket.receive());
        EXPECT_EQ(answer.text(), "hello");
        const Result<> closed = co_await socket.close();
        server.shutdown();
        co_return closed;
    };
    const auto body = [&]() -> Task<void> {
        ws::Server server = expect(ws::Server::listen(net::Endpoint::loopback(0)));
        expect(co_await all(server.serve(websocket_page::echo), ask(server)));
    };
    run(body());
}

} // namespace
