// How long a busy program delays a timer and a quiet connection, on Penstock and on Asio: counted
// in steps of the load (coro/support/counted_steps.hpp). Each load is written as a program for that
// library writes it. No event may wait for more steps on Penstock, but for the one that
// docs/fairness.md promises: a step that runs, or is ready.

#include <penstock/penstock.hpp>
#include <penstock/tls/context.hpp>
#include <penstock/tls/stream.hpp>
#include <penstock/ws.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "asio/asio_loads.hpp"
#include "coro/http/running_server.hpp"
#include "coro/support/steps_before_an_event.hpp"
#include "coro/tls/tls_test.hpp"
#include "coro/ws/request.hpp"

namespace {

using namespace penstock;
using penstock::testing::connect_pair;
using penstock::testing::CountedSteps;
using penstock::testing::expect;
using penstock::testing::StepsBeforeAnEvent;
using penstock::testing::TcpPair;
using Event = CountedSteps::Event;
namespace asio_loads = penstock::testing::asio_loads;

constexpr int promised = 1;

/// Enough steps for all events, and little enough for the buffers of the kernel.
constexpr int enough = 4000;

std::string repeated(std::string_view text) {
    std::string all;
    for (int i = 0; i < enough; ++i) {
        all += text;
    }
    return all;
}

Task<> work_in_turns(StepsBeforeAnEvent& steps) {
    while (!steps.done()) {
        steps.step();
        expect(co_await yield());
    }
}

/// Reads a little at a time.
template <typename S> Task<> drain(StepsBeforeAnEvent& steps, S& stream) {
    std::array<char, 16> part{};
    while (!steps.done()) {
        expect(co_await stream.read(part));
        steps.step();
    }
}

class LatencyBesideAsio : public penstock::testing::TlsTest,
                          public ::testing::WithParamInterface<Event> {
protected:
    /// Judges and prints a row.
    static void judge(std::string_view load, int penstock, int asio) {
        std::printf("%-34s %-8s penstock %3d   asio %3d\n", std::string(load).c_str(),
                    GetParam() == Event::data ? "data" : "timer", penstock, asio);
        EXPECT_LE(penstock, std::max(asio, promised)) << load;
    }
};

TEST_P(LatencyBesideAsio, ReadyTasksThatCompute) {
    constexpr int tasks = 5;
    constexpr std::int64_t slice = 5'000'000;
    const auto load = [](StepsBeforeAnEvent& steps) -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            for (int i = 0; i < tasks; ++i) {
                scope.spawn(work_in_turns(steps));
            }
            co_return;
        });
    };
    judge("5 tasks in turns of 5 ms",
          penstock::testing::steps_before_an_event(load, GetParam(), slice),
          asio_loads::ready_tasks(GetParam(), tasks, slice));
}

TEST_P(LatencyBesideAsio, AFloodingConnection) {
    const std::string bytes = repeated("sixteen letters.");
    const auto load = [&](StepsBeforeAnEvent& steps) -> Task<> {
        TcpPair pair = co_await connect_pair();
        expect(co_await pair.near.write_all(bytes));
        co_await drain(steps, pair.far);
    };
    judge("a flooding connection", penstock::testing::steps_before_an_event(load, GetParam()),
          asio_loads::flood(GetParam(), bytes));
}

TEST_P(LatencyBesideAsio, AFloodThroughTls) {
    const std::string bytes = repeated("sixteen letters.");
    const tls::Identity identity = authority.sign("DNS:localhost");
    const tls::Context clients = client();
    const tls::Context servers = tls::Context::server({.identity = identity}).value();
    const auto load = [&](StepsBeforeAnEvent& steps) -> Task<> {
        TcpPair pair = co_await connect_pair();
        auto both = expect(co_await penstock::testing::shake_hands<net::TcpStream>(
            std::move(pair.near), std::move(pair.far), clients, servers));
        expect(co_await both.client.write_all(bytes));
        co_await drain(steps, both.server);
    };
    judge("a flood through TLS", penstock::testing::steps_before_an_event(load, GetParam()),
          asio_loads::tls_flood(GetParam(), bytes, identity.certificate_chain_file,
                                identity.private_key_file));
}

TEST_P(LatencyBesideAsio, PipelinedRequests) {
    const std::string requests = repeated("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    const auto load = [&](StepsBeforeAnEvent& steps) -> Task<> {
        http::Server server;
        server.get("/", [&](http::Request&, http::Response& response) {
            if (!steps.done()) {
                steps.step();
            }
            response.body("answer");
        });
        TcpPair pair = co_await connect_pair();
        expect(co_await pair.near.write_all(requests));
        expect(pair.near.shutdown());
        co_await all(server.serve_connection(std::move(pair.far)), read_all_text(pair.near));
    };
    judge("pipelined HTTP requests", penstock::testing::steps_before_an_event(load, GetParam()),
          asio_loads::pipelined_requests(GetParam(), requests,
                                         "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer"));
}

TEST_P(LatencyBesideAsio, AFloodOfWebSocketMessages) {
    const std::string frames = repeated(std::string_view("\x82\x84\0\0\0\0data", 10));
    const auto load = [&](StepsBeforeAnEvent& steps) -> Task<> {
        TcpPair pair = co_await connect_pair();
        expect(co_await pair.near.write_all(penstock::testing::request + frames));
        auto socket = expect(co_await ws::WebSocket::accept(AnyStream(std::move(pair.far))));
        while (!steps.done()) {
            (void)expect(co_await socket.receive());
            steps.step();
        }
    };
    judge("a flood of WebSocket messages",
          penstock::testing::steps_before_an_event(load, GetParam()),
          asio_loads::web_socket_flood(GetParam(), frames));
}

INSTANTIATE_TEST_SUITE_P(Events, LatencyBesideAsio, ::testing::Values(Event::data, Event::timer),
                         [](const auto& info) {
                             return info.param == Event::data ? "Data" : "Timer";
                         });

} // namespace
