#include <penstock/http/server.hpp>

#include <penstock/net/unix_listener.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include <array>
#include <cctype>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/site.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using http::Request;
using http::Response;
using penstock::testing::error_of;
using penstock::testing::expect;
using penstock::testing::get;
using penstock::testing::hello;
using penstock::testing::post;
using penstock::testing::read_until;
using penstock::testing::Site;
using penstock::testing::with_server;
using penstock::testing::without_date;

TEST(HttpServer, ServesAnyStream) {
    Site site;
    auto [near, far] = MemoryStream::pair();
    const auto client = [&]() -> Task<std::string> {
        expect(co_await near.write_all(get("/hello/a") + post("/echo", "b")));
        expect(near.shutdown());
        co_return expect(co_await read_all_text(near));
    };
    const auto body = [&]() -> Task<std::string> {
        const auto results = co_await all(client(), site.server.serve_connection(std::move(far)));
        co_return std::get<0>(results);
    };
    EXPECT_EQ(without_date(run(body())), hello("hello a") + hello("b"));
    const penstock::testing::TemporaryFolder folder;
    const net::UnixEndpoint endpoint = *net::UnixEndpoint::path(folder.path("socket"));
    const auto local = [&]() -> Task<Result<>> {
        auto stream = co_await unwrap(net::UnixStream::connect(endpoint));
        co_await unwrap(stream.write_all(get("/")));
        EXPECT_EQ(without_date(co_await read_until(stream, "root")), hello("root"));
        site.server.stop(1s);
        co_return Result<>();
    };
    expect(run(all(site.server.serve(expect(net::UnixListener::listen(endpoint))), local())));
}

TEST(HttpServer, TellsWhoAsks) {
    std::vector<Result<net::Endpoint>> peers;
    std::vector<Result<net::Endpoint>> locals;
    http::Server server;
    server.get("/", [&](http::Request& request, http::Response&) {
        peers.push_back(request.peer_endpoint());
        locals.push_back(request.local_endpoint());
    });
    auto [near, far] = MemoryStream::pair();
    const auto in_memory = [&]() -> Task<void> {
        expect(co_await near.write_all(get("/")));
        expect(near.shutdown());
        (void)expect(co_await read_all_text(near));
    };
    const auto both = [&]() -> Task<void> {
        co_await all(in_memory(), server.serve_connection(std::move(far)));
    };
    run(both());
    net::Endpoint client;
    net::Endpoint listening;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        listening = endpoint;
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        client = expect(stream.local_endpoint());
        expect(co_await stream.write_all(get("/")));
        expect(stream.shutdown());
        (void)expect(co_await read_all_text(stream));
    });
    ASSERT_EQ(peers.size(), 2U);
    EXPECT_EQ(peers[0].error(), std::errc::not_supported);
    EXPECT_EQ(locals[0].error(), std::errc::not_supported);
    EXPECT_EQ(peers[1].value(), client);
    EXPECT_EQ(locals[1].value(), listening);
}

TEST(HttpServer, HandsAConnectionOver) {
    Site site;
    site.server.upgrade("/up", "shout", [](http::Upgrade& upgrade) -> Task<Result<>> {
        EXPECT_NE(upgrade.stream<net::TcpStream>(), nullptr);
        EXPECT_EQ(upgrade.stream<net::UnixStream>(), nullptr);
        EXPECT_EQ(upgrade.request().path(), "/up");
        EXPECT_EQ(upgrade.head().fields.find("x"), "y");
        co_await unwrap(upgrade.write_all(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n"));
        for (;;) {
            std::array<char, 16> bytes{};
            const std::size_t size = co_await unwrap(upgrade.read(bytes));
            if (size == 0) {
                co_return Result<>();
            }
            for (char& c : bytes) {
                c = static_cast<char>(std::toupper(c));
            }
            co_await unwrap(upgrade.write_all(Bytes(bytes.data(), size)));
        }
    });
    EXPECT_EQ(site.ask(get("/hello/a") +
                       get("/up", "Connection: upgrade\r\nUpgrade: shout\r\nX: y\r\n") + "hello"),
              hello("hello a") +
                  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                  "shout\r\n\r\nHELLO");
    Site refusing;
    refusing.server.upgrade("/up", "shout",
                            [](http::Upgrade&) -> Task<Result<>> { co_return Result<>(); });
    EXPECT_EQ(refusing.ask(get("/up") + get("/")),
              "HTTP/1.1 426 Upgrade Required\r\nContent-Type: text/plain; charset=utf-8\r\n"
              "Connection: Upgrade\r\nUpgrade: shout\r\nContent-Length: 21\r\n\r\n"
              "426 Upgrade Required\n" +
                  hello("root"));
}

TEST(HttpServer, FinishesWhatRunsWhenItStops) {
    Site site;
    sync::Event started;
    sync::Event released;
    site.server.get("/slow", [&](Request&, Response& response) -> Task<void> {
        started.set();
        (void)co_await released.wait();
        response.body("slow");
    });
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        const auto client = [&]() -> Task<Result<>> {
            net::TcpStream idle = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await idle.write_all(get("/")));
            EXPECT_EQ(without_date(co_await read_until(idle, "root")), hello("root"));
            net::TcpStream busy = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await busy.write_all(get("/slow")));
            (void)co_await started.wait();
            site.server.stop(1h);
            EXPECT_EQ(expect(co_await read_all_text(idle)), "");
            const Result<net::TcpStream> late = co_await net::TcpStream::connect(endpoint);
            EXPECT_EQ(error_of(late), std::errc::connection_refused);
            released.set();
            EXPECT_EQ(without_date(expect(co_await read_all_text(busy))),
                      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow");
            co_return Result<>();
        };
        expect(co_await all(site.server.serve(std::move(listener)), client()));
    };
    run(body());
    EXPECT_EQ(site.server.connections(), 0);
}

TEST(HttpServer, CancelsWhatRunsAfterTheGracePeriod) {
    Site site;
    sync::Event started;
    site.server.get("/forever", [&](Request&, Response&) -> Task<Result<>> {
        started.set();
        co_return co_await sleep_for(1h);
    });
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        const auto client = [&]() -> Task<Result<>> {
            net::TcpStream busy = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await busy.write_all(get("/forever")));
            (void)co_await started.wait();
            site.server.stop(0s);
            EXPECT_EQ(expect(co_await read_all_text(busy)), "");
            co_return Result<>();
        };
        expect(co_await all(site.server.serve(std::move(listener)), client()));
    };
    run(body());
}

TEST(HttpServer, WaitsAtItsConnectionLimit) {
    http::ServerOptions options;
    options.limits.connections = 1;
    options.timeouts.safe_idle = 1h;
    Site site(std::move(options));
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream first = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await first.write_all(get("/")));
        (void)co_await read_until(first, "root");
        net::TcpStream second = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await second.write_all(get("/")));
        expect(co_await first.write_all(get("/")));
        (void)co_await read_until(first, "root");
        EXPECT_EQ(site.server.connections(), 1);
        first.close();
        (void)co_await read_until(second, "root");
    });
}

} // namespace
