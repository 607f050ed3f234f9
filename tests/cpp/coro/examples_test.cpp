// Runs each example program and checks what its first lines promise.

#include <penstock/penstock.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws.hpp>

#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>

#include <gtest/gtest.h>

#include "coro/support/tcp_pair.hpp"
#include "support/temporary_folder.hpp"

namespace {

using penstock::BufReader;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::net::Endpoint;
using penstock::net::TcpStream;
using penstock::process::Child;
using penstock::process::Command;
using penstock::process::ExitStatus;
using penstock::process::Stdio;
using penstock::testing::expect;
using penstock::testing::TemporaryFolder;

Command example(std::string_view name, std::initializer_list<std::string_view> arguments) {
    return Command(std::string(PENSTOCK_EXAMPLES) + "/" + std::string(name))
        .arguments(arguments)
        .output(Stdio::pipe())
        .error(Stdio::pipe())
        .kill_on_close();
}

/// A server that has printed its address.
struct Server {
    Child child{};
    std::uint16_t port = 0;
};

Task<std::string> line_of(auto& reader) {
    const auto line = expect(co_await reader.line());
    co_return std::string(line.value_or("(the end)"));
}

Task<Server> start(Command command) {
    Server server{.child = expect(command.spawn())};
    BufReader reader(server.child.output);
    const std::string line = co_await line_of(reader);
    const std::string_view port = std::string_view(line).substr(line.rfind(':') + 1);
    EXPECT_EQ(std::from_chars(port.data(), port.data() + port.size(), server.port).ec, std::errc());
    co_return server;
}

Task<Server> start(std::string_view name, std::initializer_list<std::string_view> arguments) {
    return start(example(name, arguments));
}

Task<TcpStream> connect(const Server& server) {
    co_return expect(co_await TcpStream::connect(Endpoint::loopback(server.port)));
}

Task<void> expect_echo(TcpStream& stream, std::string_view text) {
    expect(co_await stream.write_all(text));
    std::string echoed(text.size(), ' ');
    expect(co_await stream.read_exactly(echoed));
    EXPECT_EQ(echoed, text);
}

TEST(Examples, EchoSequentialServesOneAfterTheOther) {
    const auto body = []() -> Task<void> {
        Server server = co_await start("echo_sequential", {});
        for (const std::string_view text : {"one", "two", "three"}) {
            TcpStream stream = co_await connect(server);
            co_await expect_echo(stream, text);
        }
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, EchoScopeServesConcurrently) {
    const auto body = []() -> Task<void> {
        Server server = co_await start("echo_scope", {});
        TcpStream first = co_await connect(server);
        TcpStream second = co_await connect(server);
        TcpStream third = co_await connect(server);
        co_await expect_echo(third, "last");
        co_await expect_echo(first, "first");
        first.close();
        co_await expect_echo(second, "still there");
        second.close();
        third.close();
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, EchoTimeoutClosesIdleClients) {
    const auto body = []() -> Task<void> {
        Server server = co_await start("echo_timeout", {"0", "50"});
        TcpStream silent = co_await connect(server);
        BufReader reader(silent);
        EXPECT_EQ(co_await line_of(reader), "idle for too long, closing");
        EXPECT_EQ(co_await line_of(reader), "(the end)");
        (void)co_await connect(server);
        (void)co_await connect(server);
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, EchoShutdownLetsOpenConnectionsFinish) {
    const auto body = []() -> Task<void> {
        Server server = co_await start("echo_shutdown", {"0", "60000"});
        TcpStream stream = co_await connect(server);
        co_await expect_echo(stream, "before");
        expect(server.child.signal(SIGTERM));
        BufReader output(server.child.output);
        EXPECT_EQ(co_await line_of(output), "stopping");
        co_await expect_echo(stream, "after");
        EXPECT_EQ((co_await TcpStream::connect(Endpoint::loopback(server.port))).error(),
                  std::errc::connection_refused);
        stream.close();
        EXPECT_EQ(co_await line_of(output), "stopped");
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, EchoShutdownEndsConnectionsThatDoNotFinish) {
    const auto body = []() -> Task<void> {
        Server server = co_await start("echo_shutdown", {"0", "1"});
        TcpStream stream = co_await connect(server);
        co_await expect_echo(stream, "before");
        expect(server.child.signal(SIGINT));
        std::array<char, 1> end{};
        EXPECT_EQ(co_await stream.read(end), 0U);
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, EchoCoresServesOnSeveralLoopsAndStopsThemTogether) {
    const auto body = []() -> Task<void> {
        Server server = co_await start("echo_cores", {"0", "3"});
        for (int i = 0; i < 20; ++i) { // the kernel distributes them over the loops
            TcpStream stream = co_await connect(server);
            co_await expect_echo(stream, "text");
        }
        expect(server.child.signal(SIGTERM));
        BufReader output(server.child.output);
        EXPECT_EQ(co_await line_of(output), "stopping");
        EXPECT_EQ(co_await line_of(output), "stopped");
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, WsEchoAnswersUntilItIsStopped) {
    const auto body = []() -> Task<void> {
        using penstock::ws::WebSocket;
        Server server = co_await start("ws_echo", {"0", "60000"});
        const std::string url = "ws://127.0.0.1:" + std::to_string(server.port);
        WebSocket socket =
            expect(co_await WebSocket::connect(url, {.compression = penstock::ws::deflate()}));
        EXPECT_TRUE(socket.compression());
        for (const std::string& text :
             {std::string("one"), std::string(), std::string(5000, 'x')}) {
            expect(co_await socket.send_text(text));
            EXPECT_EQ(expect(co_await socket.receive()).text(), text);
        }
        expect(server.child.signal(SIGTERM));
        EXPECT_EQ((co_await socket.receive()).error(), penstock::ws::Error::closed);
        EXPECT_EQ(socket.close_code(), penstock::ws::close_code::going_away);
        BufReader output(server.child.output);
        EXPECT_EQ(co_await line_of(output), "stopping");
        EXPECT_EQ(co_await line_of(output), "stopped");
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

Task<std::string> ask(const Server& server, std::string request) {
    TcpStream stream = co_await connect(server);
    expect(co_await stream.write_all(request));
    const std::string answer = expect(co_await penstock::read_all_text(stream));
    co_return answer.substr(answer.find("\r\n\r\n") + 4);
}

Task<void> expect_stop(Server& server) {
    expect(server.child.signal(SIGTERM));
    BufReader output(server.child.output);
    EXPECT_EQ(co_await line_of(output), "stopping");
    EXPECT_EQ(co_await line_of(output), "stopped");
    EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
}

TEST(Examples, HttpServerAnswersAndFinishesWhenStopped) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        folder.fill("index.html", "<p>index");
        Server server = co_await start("http_server", {"0", folder.path("")});
        const std::string end = " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        EXPECT_EQ(co_await ask(server, "GET /hello/ada" + end + "\r\n"), "Hello, ada!\n");
        EXPECT_EQ(co_await ask(server, "GET /files/" + end + "\r\n"), "<p>index");
        EXPECT_EQ(co_await ask(server, "GET /count/2" + end + "\r\n"),
                  "2\r\n1\n\r\n2\r\n2\n\r\n0\r\n\r\n");
        EXPECT_EQ(co_await ask(server, "PUT /size" + end + "Content-Length: 5\r\n\r\nabcde"),
                  "5 bytes\n");
        co_await expect_stop(server);
    };
    run(body());
}

/// The whole answer to a request on a connection of its own.
Task<std::string> answer_of(const Server& server, std::string request) {
    TcpStream stream = co_await connect(server);
    expect(co_await stream.write_all(request));
    co_return expect(co_await penstock::read_all_text(stream));
}

TEST(Examples, RestServiceKeepsItemsForThoseWhoKnowItsToken) {
    const std::string program = std::string(PENSTOCK_EXAMPLES) + "/rest_service";
    if (!std::filesystem::exists(program)) {
        GTEST_SKIP() << program << " is not built: it needs OpenSSL, zlib and nlohmann's JSON";
    }
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string log = folder.path("access.log");
        Server server =
            co_await start(example("rest_service", {"0", log}).environment("TOKEN", "secret"));
        const std::string end = " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        const std::string known = "Authorization: Bearer secret\r\n";
        const auto json = [](const std::string& text) {
            return "Content-Type: application/json\r\nContent-Length: " +
                   std::to_string(text.size()) + "\r\n\r\n" + text;
        };
        const std::string stranger =
            co_await answer_of(server, "POST /items" + end + json(R"({"name":"ada"})"));
        EXPECT_TRUE(stranger.starts_with("HTTP/1.1 401 "));
        const std::string broken =
            co_await answer_of(server, "POST /items" + end + known + json("["));
        EXPECT_TRUE(broken.starts_with("HTTP/1.1 400 "));
        const std::string made =
            co_await answer_of(server, "POST /items" + end + known + json(R"({"name":"ada"})"));
        EXPECT_TRUE(made.starts_with("HTTP/1.1 201 "));
        EXPECT_NE(made.find("Location: /items/1\r\n"), std::string::npos);
        const std::string one = co_await answer_of(server, "GET /items/1" + end + "\r\n");
        EXPECT_TRUE(one.ends_with(R"({"name":"ada"})")) << one;
        const std::size_t quoted = one.find("\r\nETag: ") + 8;
        const std::string tag = one.substr(quoted, one.find("\r\n", quoted) - quoted);
        const std::string same =
            co_await answer_of(server, "GET /items/1" + end + "If-None-Match: " + tag + "\r\n\r\n");
        EXPECT_TRUE(same.starts_with("HTTP/1.1 304 ")) << tag;
        const std::string url = "ws://127.0.0.1:" + std::to_string(server.port) + "/changes";
        auto changes = expect(co_await penstock::ws::WebSocket::connect(url));
        const std::string change = "PUT /items/1" + end + known + "If-Match: " + tag + "\r\n";
        const std::string changed = co_await answer_of(server, change + json(R"({"name":"bob"})"));
        EXPECT_TRUE(changed.starts_with("HTTP/1.1 200 "));
        EXPECT_EQ(expect(co_await changes.receive()).text(),
                  R"({"id":"1","value":{"name":"bob"}})");
        const std::string late = co_await answer_of(server, change + json(R"({"name":"eve"})"));
        EXPECT_TRUE(late.starts_with("HTTP/1.1 412 "));
        EXPECT_EQ(co_await ask(server, "GET /items" + end + "\r\n"), R"({"1":{"name":"bob"}})");
        const std::string removed =
            co_await answer_of(server, "DELETE /items/1" + end + known + "\r\n");
        EXPECT_TRUE(removed.starts_with("HTTP/1.1 204 "));
        const std::string absent = co_await answer_of(server, "GET /items/1" + end + "\r\n");
        EXPECT_TRUE(absent.starts_with("HTTP/1.1 404 "));
        const std::string elsewhere =
            co_await answer_of(server, "GET /items/1" + end + "Origin: https://elsewhere\r\n\r\n");
        EXPECT_TRUE(elsewhere.starts_with("HTTP/1.1 404 "));
        EXPECT_NE(elsewhere.find("Access-Control-Allow-Origin: *\r\n"), std::string::npos);
        EXPECT_EQ((co_await ask(server, "GET /who" + end + "\r\n"))
                      .find(R"({"address":"127.0.0.1","request":")"),
                  0U);
        const std::string metrics = co_await ask(server, "GET /metrics" + end + "\r\n");
        EXPECT_NE(metrics.find("penstock_requests_total"), std::string::npos);
        BufReader output(server.child.output);
        expect(server.child.signal(SIGHUP));
        EXPECT_EQ(co_await line_of(output), "reloaded");
        expect(server.child.signal(SIGTERM));
        EXPECT_EQ((co_await changes.receive()).error(), penstock::ws::Error::closed);
        EXPECT_EQ(changes.close_code(), penstock::ws::close_code::going_away);
        EXPECT_EQ(co_await line_of(output), "stopped");
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
        EXPECT_NE(folder.content("access.log").find("\"POST /items HTTP/1.1\" 401"),
                  std::string::npos);
    };
    run(body());
}

TEST(Examples, ReverseProxyPassesBothBodiesOn) {
    const std::string program = std::string(PENSTOCK_EXAMPLES) + "/reverse_proxy";
    if (!std::filesystem::exists(program)) {
        GTEST_SKIP() << program << " is not built: it needs libcurl and zlib";
    }
    const auto body = []() -> Task<void> {
        Server behind = co_await start("http_server", {"0"});
        Server proxy = co_await start("reverse_proxy",
                                      {"0", "http://127.0.0.1:" + std::to_string(behind.port)});
        const std::string end = " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        EXPECT_EQ(co_await ask(proxy, "GET /hello/a%20b?c" + end + "\r\n"), "Hello, a b!\n");
        EXPECT_EQ(co_await ask(proxy, "GET /count/2" + end + "\r\n"),
                  "2\r\n1\n\r\n2\r\n2\n\r\n0\r\n\r\n");
        const std::string large(1'000'000, 'x');
        EXPECT_EQ(
            co_await ask(proxy, "PUT /size" + end + "Content-Length: 1000000\r\n\r\n" + large),
            "1000000 bytes\n");
        EXPECT_EQ(
            co_await ask(proxy, "PUT /size" + end +
                                    "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"),
            "5 bytes\n");
        const std::string head = co_await answer_of(proxy, "HEAD /hello/ada" + end + "\r\n");
        EXPECT_TRUE(head.starts_with("HTTP/1.1 200 ")) << head;
        EXPECT_NE(head.find("Content-Length: 12\r\n"), std::string::npos) << head;
        EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
        const std::string missing = co_await answer_of(proxy, "GET /missing" + end + "\r\n");
        EXPECT_TRUE(missing.starts_with("HTTP/1.1 404 ")) << missing;
        co_await expect_stop(behind);
        const std::string gone = co_await answer_of(proxy, "GET /hello/ada" + end + "\r\n");
        EXPECT_TRUE(gone.starts_with("HTTP/1.1 502 ")) << gone;
        co_await expect_stop(proxy);
    };
    run(body());
}

TEST(Examples, SocketActivationServesTheSocketOfItsParentUntilNobodyIsThere) {
    const auto body = []() -> Task<void> {
        const auto socket =
            expect(penstock::net::TcpListener::listen(Endpoint::loopback(0))); // systemd's
        const std::string script =
            "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" 0 1";
        for (int each = 0; each < 2; ++each) { // the next client starts it again
            Server server = co_await start(
                Command("/bin/sh")
                    .arguments(
                        {"-c", script, std::string(PENSTOCK_EXAMPLES) + "/socket_activation"})
                    .input(Stdio::descriptor(socket.native_handle()))
                    .output(Stdio::pipe())
                    .error(Stdio::pipe())
                    .kill_on_close());
            EXPECT_EQ(server.port, expect(socket.local_endpoint()).port());
            EXPECT_EQ(co_await ask(server, "GET / HTTP/1.0\r\n\r\n"), "hello\n");
            EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
        }
        Server own = co_await start("socket_activation", {"0", "3600"});
        EXPECT_EQ(co_await ask(own, "GET / HTTP/1.0\r\n\r\n"), "hello\n");
        expect(own.child.signal(SIGTERM));
        EXPECT_EQ(co_await own.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, LivePageTellsItsListeners) {
    const auto body = []() -> Task<void> {
        Server server = co_await start("live_page", {"0"});
        const std::string end = " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        const std::string page = co_await ask(server, "GET /" + end);
        EXPECT_NE(page.find("new EventSource(\"/events\")"), std::string::npos);
        TcpStream stream = co_await connect(server);
        expect(co_await stream.write_all("GET /events" + end));
        BufReader events(stream);
        for (const char* wanted : {"event: memory", "event: listeners"}) {
            std::string line;
            while (line != wanted && line != "(the end)") {
                line = co_await line_of(events);
            }
            EXPECT_EQ(line, wanted);
        }
        EXPECT_EQ(co_await line_of(events), "data: 1");
        co_await expect_stop(server);
    };
    run(body());
}

TEST(Examples, HttpWebSocketSharesItsPort) {
    const auto body = []() -> Task<void> {
        using penstock::ws::WebSocket;
        Server server = co_await start("http_websocket", {"0"});
        const std::string page =
            co_await ask(server, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        EXPECT_NE(page.find("/clock"), std::string::npos);
        const std::string url = "ws://127.0.0.1:" + std::to_string(server.port) + "/clock";
        WebSocket socket = expect(co_await WebSocket::connect(url));
        EXPECT_EQ(expect(co_await socket.receive()).text(), "0 s");
        expect(server.child.signal(SIGTERM));
        Result<penstock::ws::Message> message = co_await socket.receive();
        while (message) {
            message = co_await socket.receive();
        }
        EXPECT_EQ(message.error(), penstock::ws::Error::closed);
        EXPECT_EQ(socket.close_code(), penstock::ws::close_code::going_away);
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, RoomsAreHeardByAllTheirGuests) {
    const auto body = []() -> Task<void> {
        using penstock::ws::WebSocket;
        Server server = co_await start("rooms", {"serve"});
        const std::string url = "ws://127.0.0.1:" + std::to_string(server.port);
        WebSocket other = expect(co_await WebSocket::connect(url + "/other"));
        Child visit = expect(example("rooms", {"visit", url + "/room", "300"}).spawn());
        EXPECT_EQ(co_await visit.wait(), ExitStatus::exited(0));
        expect(co_await other.send_text("to nobody else"));
        EXPECT_EQ(expect(co_await other.receive()).text(), "to nobody else");
        expect(co_await other.send_binary(penstock::Bytes("x")));
        EXPECT_EQ((co_await other.receive()).error(), penstock::ws::Error::closed);
        EXPECT_EQ(other.close_code(), penstock::ws::close_code::unsupported_data);
        co_await expect_stop(server);
    };
    run(body());
}

TEST(Examples, ChatBroadcastsToAllOtherGuests) {
    const auto body = []() -> Task<void> {
        Server server = co_await start("chat", {});
        TcpStream ada = co_await connect(server);
        TcpStream bob = co_await connect(server);
        BufReader heard_by_ada(ada);
        BufReader heard_by_bob(bob);
        expect(co_await bob.write_all("bob\n"));
        expect(co_await bob.write_all("anybody there?\n"));
        EXPECT_EQ(co_await line_of(heard_by_ada), "bob has joined");
        EXPECT_EQ(co_await line_of(heard_by_ada), "bob: anybody there?");
        expect(co_await ada.write_all("ada\nyes\n"));
        EXPECT_EQ(co_await line_of(heard_by_bob), "ada has joined");
        EXPECT_EQ(co_await line_of(heard_by_bob), "ada: yes");
        bob.close();
        EXPECT_EQ(co_await line_of(heard_by_ada), "bob has left");
        expect(server.child.signal(SIGTERM));
        EXPECT_EQ(co_await line_of(heard_by_ada), "(the end)");
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, ChatDeliversABurstToAGuestWhoReads) {
    const auto body = []() -> Task<void> {
        constexpr int lines = 1000;
        Server server = co_await start("chat", {});
        TcpStream ada = co_await connect(server);
        TcpStream bob = co_await connect(server);
        BufReader heard_by_ada(ada);
        expect(co_await bob.write_all("bob\n"));
        EXPECT_EQ(co_await line_of(heard_by_ada), "bob has joined");
        std::string burst;
        for (int i = 0; i < lines; ++i) {
            burst += std::to_string(i) + "\n";
        }
        expect(co_await bob.write_all(burst));
        bob.close();
        for (int i = 0; i < lines; ++i) {
            EXPECT_EQ(co_await line_of(heard_by_ada), "bob: " + std::to_string(i));
        }
        EXPECT_EQ(co_await line_of(heard_by_ada), "bob has left");
    };
    run(body());
}

TEST(Examples, ChatSendsWhatWaitsForItsGuestsWhenItStops) {
    const auto body = []() -> Task<void> {
        constexpr int lines = 250;
        const std::string text(50'000, 'x'); // altogether more than the kernel buffers
        Server server = co_await start("chat", {});
        TcpStream slow = co_await connect(server);
        TcpStream fast = co_await connect(server);
        TcpStream bob = co_await connect(server);
        BufReader heard_by_fast(fast);
        BufReader heard_by_slow(slow);
        const auto speak = [&]() -> Task<Result<>> {
            co_await penstock::unwrap(bob.write_all("bob\n"));
            for (int i = 0; i < lines; ++i) {
                co_await penstock::unwrap(bob.write_all(text + "\n"));
            }
            co_return Result<>();
        };
        const auto expect_lines = [&](auto& reader) -> Task<Result<>> {
            EXPECT_EQ(co_await line_of(reader), "bob has joined");
            for (int i = 0; i < lines; ++i) {
                EXPECT_EQ(co_await line_of(reader), "bob: " + text);
            }
            co_return Result<>();
        };
        expect(co_await penstock::all(speak(), expect_lines(heard_by_fast)));
        expect(server.child.signal(SIGTERM));
        EXPECT_EQ(co_await line_of(heard_by_fast), "(the end)");
        expect(co_await expect_lines(heard_by_slow));
        EXPECT_EQ(co_await line_of(heard_by_slow), "(the end)");
        EXPECT_EQ(co_await server.child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, TcpProxyPassesBothWaysAndClosesIdleConnections) {
    const auto body = []() -> Task<void> {
        Server target = co_await start("echo_shutdown", {});
        const std::string port = std::to_string(target.port);
        Server proxy = co_await start("tcp_proxy", {"127.0.0.1", port, "0", "60000"});
        TcpStream stream = co_await connect(proxy);
        co_await expect_echo(stream, "through the proxy");
        expect(stream.shutdown());
        std::array<char, 1> end{};
        EXPECT_EQ(co_await stream.read(end), 0U); // the end has passed both
        expect(proxy.child.signal(SIGTERM));
        EXPECT_EQ(co_await proxy.child.wait(), ExitStatus::exited(0));
        Server impatient = co_await start("tcp_proxy", {"127.0.0.1", port, "0", "50"});
        TcpStream silent = co_await connect(impatient);
        EXPECT_EQ(co_await silent.read(end), 0U);
        BufReader output(impatient.child.output);
        EXPECT_EQ(co_await line_of(output), "idle for too long, closing");
    };
    run(body());
}

TEST(Examples, HashFilesPrintsEachFileInOrder) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        folder.fill("b", "a");
        folder.fill("a", "");
        Child child = expect(example("hash_files", {folder.path("")}).spawn());
        BufReader output(child.output);
        EXPECT_TRUE((co_await line_of(output)).starts_with("cbf29ce484222325  "));
        EXPECT_TRUE((co_await line_of(output)).starts_with("af63dc4c8601ec8c  "));
        EXPECT_EQ(co_await line_of(output), "(the end)");
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0));
        Child refused = expect(example("hash_files", {folder.path("none")}).spawn());
        EXPECT_EQ(co_await refused.wait(), ExitStatus::exited(1));
    };
    run(body());
}

TEST(Examples, ParallelPrintsWhatItsCommandsHaveWritten) {
    const auto body = []() -> Task<void> {
        Child child = expect(example("parallel", {"2", "echo one", "exit 3", "echo two"}).spawn());
        BufReader output(child.output);
        for (const std::string_view line : {"echo one: succeeded", "one", "exit 3: failed",
                                            "echo two: succeeded", "two", "(the end)"}) {
            EXPECT_EQ(co_await line_of(output), line);
        }
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(1));
    };
    run(body());
}

/// Requests a task trace from an example, and waits until it has printed a line.
Task<void> expect_trace(Child& child, std::string_view name) {
    expect(child.signal(SIGQUIT));
    BufReader errors(child.error);
    EXPECT_EQ(co_await line_of(errors), "task 1 waits");
    std::string line;
    do {
        line = co_await line_of(errors);
    } while (line != "(the end)" && line.find(std::string(name) + ".cpp:") == std::string::npos);
    EXPECT_NE(line, "(the end)") << name;
}

TEST(Examples, ServersPrintATaskTraceOnSigquit) {
    const auto body = []() -> Task<void> {
        for (const std::string_view name :
             {"echo_sequential", "echo_scope", "echo_timeout", "echo_shutdown", "chat"}) {
            Server server = co_await start(name, {});
            co_await expect_trace(server.child, name);
            EXPECT_TRUE(co_await TcpStream::connect(Endpoint::loopback(server.port)))
                << name << " goes on";
        }
    };
    run(body());
}

TEST(Examples, FirstByteIsEchoed) {
    const auto body = []() -> Task<void> {
        Child child = expect(example("first_byte", {}).spawn());
        BufReader output(child.output);
        EXPECT_EQ(co_await line_of(output), "first byte");
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, PortScannerFindsListeners) {
    const auto body = []() -> Task<void> {
        const penstock::net::TcpListener listener = penstock::testing::listen_on_loopback();
        const unsigned port = expect(listener.local_endpoint()).port();
        const std::string first = std::to_string(port - 20);
        const std::string last = std::to_string(port);
        Child child = expect(example("port_scanner", {"127.0.0.1", first, last, "4"}).spawn());
        BufReader output(child.output);
        std::string printed;
        std::string line;
        while ((line = co_await line_of(output)) != "(the end)") {
            printed = line; // other programs may listen on some of the ports before
        }
        EXPECT_EQ(printed, last);
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, TailPrintsAppendedLines) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("log", "old\n");
        Child child = expect(example("tail", {path, "3"}).spawn());
        BufReader output(child.output);
        EXPECT_EQ(co_await line_of(output), "old");
        co_await expect_trace(child, "tail");
        penstock::fs::File log =
            expect(co_await penstock::fs::File::open(path, penstock::fs::OpenOptions::appending()));
        expect(co_await log.write_all("half a "));
        expect(co_await log.write_all("line\nnew\n"));
        EXPECT_EQ(co_await line_of(output), "half a line");
        EXPECT_EQ(co_await line_of(output), "new");
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, PipelineCountsWords) {
    const auto body = []() -> Task<void> {
        Child child = expect(example("pipeline", {"b", "a", "b"}).spawn());
        BufReader output(child.output);
        EXPECT_EQ(co_await line_of(output), "      1 a");
        EXPECT_EQ(co_await line_of(output), "      2 b");
        EXPECT_EQ(co_await line_of(output), "(the end)");
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Examples, SerialTerminalCopiesBothWays) {
    const auto body = []() -> Task<void> {
        auto [device, path] = expect(penstock::process::Terminal::open({}));
        Child child =
            expect(example("serial_terminal", {path, "9600"}).input(Stdio::pipe()).spawn());
        expect(co_await child.input.write_all("question\r"));
        BufReader said(device);
        EXPECT_EQ(co_await said.read_until("\r"), "question\r");
        co_await expect_trace(child, "serial_terminal");
        expect(co_await device.write_all("answer\n"));
        BufReader output(child.output);
        EXPECT_EQ(co_await line_of(output), "answer");
        child.input.close();
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

} // namespace
