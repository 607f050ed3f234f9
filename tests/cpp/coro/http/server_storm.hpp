#pragma once

#include <chrono>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <penstock/detail/io/transport.hpp>
#include <penstock/http/server.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/upgrade.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/http/running_server.hpp"
#include "coro/support/logs.hpp"

/// Clients that ask, stream, speak WebSocket, disappear and are cancelled at random times, from a
/// seed, over any kind of stream.
namespace penstock::testing {

using http::Request;
using http::Response;

struct Storm {
    explicit Storm(unsigned seed) : random(seed) {}

    unsigned draw(unsigned below) { return static_cast<unsigned>(random()) % below; }

    std::mt19937 random;
    unsigned patience = 3'000; ///< of clients, in microseconds
    bool ended = false;        ///< the server was stopped or cancelled
    int live = 0;              ///< handlers that run
    int answered = 0;
    int echoed = 0;
};

class Alive {
public:
    explicit Alive(Storm& storm) : storm_(storm) { ++storm_.live; }
    ~Alive() { --storm_.live; }
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;

private:
    Storm& storm_;
};

inline void add_routes(http::Server& server, Storm& storm) {
    server.get("/plain/{text}", [](Request& request, Response& response) {
        response.body(request.parameter("text"));
    });
    server.get("/slow", [&storm](Request&, Response& response) -> Task<Result<>> {
        const Alive alive(storm);
        co_await unwrap(sleep_for(std::chrono::microseconds(storm.draw(300))));
        response.body("slow");
        co_return Result<>();
    });
    server.get("/stream", [&storm](Request&, Response& response) -> Task<Result<>> {
        const Alive alive(storm);
        const std::string part(storm.draw(60'000) + 1, 's');
        for (unsigned i = storm.draw(10); i > 0; --i) {
            co_await unwrap(response.write_all(part));
        }
        co_return Result<>();
    });
    server.post("/mirror", [&storm](Request& request, Response& response) -> Task<Result<>> {
        const Alive alive(storm);
        const Result<std::uint64_t> copied = co_await copy(request, response);
        co_return copied ? Result<>() : failure(copied.error());
    });
    server.get("/fail", [&storm](Request&, Response&) -> Task<Result<>> {
        const Alive alive(storm);
        co_await unwrap(sleep_for(std::chrono::microseconds(storm.draw(50))));
        co_return failure(std::errc::io_error);
    });
    server.upgrade("/socket", "websocket",
                   ws::upgrade_handler([&storm](ws::WebSocket& socket) -> Task<Result<>> {
                       const Alive alive(storm);
                       for (;;) {
                           co_await unwrap(socket.send(co_await unwrap(socket.receive())));
                       }
                   }));
}

/// Makes a buffer of a socket as small as the kernel allows.
inline void shrink(int socket, int which) {
    const int size = 1;
    EXPECT_EQ(::setsockopt(socket, SOL_SOCKET, which, &size, sizeof size), 0);
}

template <typename S> Task<Result<>> ask(Storm& storm, S& stream) {
    for (unsigned requests = 1 + storm.draw(6); requests > 0; --requests) {
        std::string text;
        switch (storm.draw(5)) {
        case 0:
            text = "GET /plain/abc HTTP/1.1\r\nHost: a\r\n\r\n";
            break;
        case 1:
            text = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
            break;
        case 2:
            text = "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n";
            break;
        case 3: {
            const std::string body(storm.draw(30'000), 'm');
            text = "POST /mirror HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                   std::to_string(body.size()) + "\r\n\r\n" + body;
            break;
        }
        default:
            text = "GET /fail HTTP/1.1\r\nHost: a\r\n\r\n";
        }
        for (std::string_view rest = text; !rest.empty();) {
            const std::string_view part = rest.substr(0, 1 + storm.draw(20'000));
            co_await unwrap(stream.write_all(part));
            rest.remove_prefix(part.size());
        }
        if (storm.draw(3) == 0) {
            continue; // the answers come together
        }
        if (storm.draw(4) == 0) { // a slow reader
            (void)co_await sleep_for(std::chrono::milliseconds(storm.draw(15)));
        }
        std::string answer(1 + storm.draw(5'000), ' ');
        const std::size_t size = co_await unwrap(stream.read(answer));
        EXPECT_TRUE(size > 0 || storm.ended);
        ++storm.answered;
        if (answer.starts_with("HTTP")) {
            EXPECT_TRUE(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 500") ||
                        size < 12)
                << answer;
        }
    }
    co_return Result<>();
}

template <typename S> Task<Result<>> talk(Storm& storm, S& stream) {
    auto socket = co_await unwrap(ws::BasicWebSocket<S&>::connect(stream, "a", "/socket"));
    for (unsigned messages = storm.draw(8); messages > 0; --messages) {
        const std::string text(storm.draw(4) == 0 ? storm.draw(100'000) : storm.draw(200), 'w');
        co_await unwrap(socket.send_text(text));
        EXPECT_TRUE((co_await unwrap(socket.receive())).text() == text);
        ++storm.echoed;
    }
    co_return storm.draw(2) == 0 ? co_await socket.close() : Result<>();
}

template <typename Dial>
Task<Result<>> visit(Storm& storm, const Dial& dial, net::Endpoint endpoint) {
    auto stream = co_await unwrap(dial(endpoint));
    if (storm.draw(3) == 0) { // a slow reader: what it does not read soon waits at the server
        shrink(penstock::detail::transport_of(stream)->native_handle(), SO_RCVBUF);
    }
    const Result<> ended = co_await (storm.draw(3) == 0 ? talk(storm, stream) : ask(storm, stream));
    if (storm.draw(3) == 0) {
        if constexpr (requires { stream.reset(); }) {
            stream.reset();
        } else {
            stream.next_layer().reset();
        }
    }
    co_return ended;
}

/// Visits that are cancelled at a random time, or at a random await.
template <typename Dial> Task<void> client(Storm& storm, const Dial& dial, net::Endpoint endpoint) {
    for (int i = 0; i < 12; ++i) {
        if (storm.draw(2) == 0) {
            const std::chrono::microseconds limit(storm.draw(storm.patience));
            (void)co_await timeout(limit, visit(storm, dial, endpoint));
        } else {
            const int limit = static_cast<int>(storm.draw(80));
            (void)co_await race(visit(storm, dial, endpoint), turns(limit));
        }
    }
}

/// Runs a server and its clients. `dial(endpoint)` connects, `serve(server, listener)` serves.
template <typename Dial, typename Serve>
void run_storm(Storm& storm, const Dial& dial, const Serve& serve) {
    http::ServerOptions options;
    options.limits.connections = 1 + storm.draw(20);
    options.on_failure = [](const http::ServerFailure&) {};
    options.timeouts.head = std::chrono::milliseconds(1 + storm.draw(20));
    options.timeouts.write = std::chrono::milliseconds(1 + storm.draw(20));
    options.timeouts.write_rate = storm.draw(2) == 0 ? 0 : 1'000'000;
    options.timeouts.linger = std::chrono::milliseconds(1 + storm.draw(5));
    http::Server server(std::move(options));
    add_routes(server, storm);
    Canceller canceller;
    const auto end = [&] {
        storm.ended = true;
        if (storm.draw(2) == 0) {
            server.stop(std::chrono::microseconds(storm.draw(2'000)));
        } else {
            canceller.cancel();
        }
    };
    const auto clients = [&](net::Endpoint endpoint) -> Task<void> {
        (void)co_await all(client(storm, dial, endpoint), client(storm, dial, endpoint),
                           client(storm, dial, endpoint), client(storm, dial, endpoint));
        end();
    };
    const auto early = [&]() -> Task<void> {
        if (storm.draw(3) == 0) {
            co_await turns(static_cast<int>(storm.draw(1'000)));
            end();
        }
    };
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = listen_on_loopback();
        if (storm.draw(2) == 0) {
            shrink(listener.native_handle(), SO_SNDBUF); // of what it accepts
        }
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        (void)co_await all_settled(cancellable(canceller, serve(server, std::move(listener))),
                                   clients(endpoint), early());
    };
    run(body());
    EXPECT_EQ(server.connections(), 0);
    EXPECT_EQ(storm.live, 0);
}

} // namespace penstock::testing
