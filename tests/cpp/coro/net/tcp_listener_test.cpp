#include <penstock/net/tcp_listener.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::run;
using penstock::Task;
using penstock::testing::expect;
using penstock::testing::listen_on_loopback;
using penstock::testing::turns;
using penstock::testing::Watchdog;
namespace net = penstock::net;

TEST(TcpListener, AcceptsInOrderOfConnection) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        net::TcpListener listener = listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        std::vector<net::TcpStream> clients;
        clients.reserve(20);
        for (int i = 0; i < 20; ++i) {
            clients.push_back(expect(co_await net::TcpStream::connect(endpoint)));
        }
        for (net::TcpStream& client : clients) {
            const net::TcpStream server = expect(co_await listener.accept());
            EXPECT_EQ(server.peer_endpoint(), client.local_endpoint());
            EXPECT_EQ(client.peer_endpoint(), endpoint);
        }
    };
    run(program());
}

TEST(TcpListener, WaitsForAConnection) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        net::TcpListener listener = listen_on_loopback();
        const auto connect_later = [](net::Endpoint endpoint) -> Task<penstock::Result<>> {
            co_await turns(3);
            auto stream = co_await net::TcpStream::connect(endpoint);
            co_return stream ? penstock::Result<>() : penstock::failure(stream.error());
        };
        expect(co_await penstock::all(listener.accept(),
                                      connect_later(expect(listener.local_endpoint()))));
    };
    run(program());
}

TEST(TcpListener, ClosingEndsAWaitingAccept) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        net::TcpListener listener = listen_on_loopback();
        const auto close_later = [](net::TcpListener& closing) -> Task<> {
            co_await turns(2);
            closing.close();
        };
        const auto [accepted, closed] =
            co_await penstock::all_settled(listener.accept(), close_later(listener));
        EXPECT_EQ(accepted.error(), std::errc::operation_canceled);
        EXPECT_EQ((co_await listener.accept()).error(), std::errc::bad_file_descriptor);
    };
    run(program());
}

TEST(TcpListener, ATimedOutAcceptLosesNoConnection) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        net::TcpListener listener = listen_on_loopback();
        EXPECT_EQ((co_await penstock::timeout(1ms, listener.accept())).error(),
                  std::errc::timed_out);
        const net::TcpStream client =
            expect(co_await net::TcpStream::connect(expect(listener.local_endpoint())));
        EXPECT_EQ(expect(co_await listener.accept()).peer_endpoint(), client.local_endpoint());
    };
    run(program());
}

TEST(TcpListener, APortHasOneListenerUnlessAllShareIt) {
    net::TcpListener first = listen_on_loopback();
    const net::Endpoint endpoint = expect(first.local_endpoint());
    EXPECT_EQ(net::TcpListener::listen(endpoint).error(), std::errc::address_in_use);
    first.close();

    const net::TcpListener::Options shared{.reuse_port = true};
    const net::TcpListener one = expect(net::TcpListener::listen(endpoint, shared));
    const net::TcpListener two = expect(net::TcpListener::listen(endpoint, shared));
    EXPECT_EQ(one.local_endpoint(), two.local_endpoint());
}

TEST(TcpListener, AnIpv6ListenerTakesIpv4UnlessV6Only) {
    const Watchdog watchdog;
    const auto connects = [](bool v6_only) -> Task<bool> {
        const net::TcpListener::Options options{.v6_only = v6_only};
        const net::TcpListener listener =
            expect(net::TcpListener::listen(net::Endpoint::any_v6(0), options));
        const std::uint16_t port = expect(listener.local_endpoint()).port();
        co_return (co_await net::TcpStream::connect(net::Endpoint::loopback(port))).has_value();
    };
    EXPECT_TRUE(run(connects(false)));
    EXPECT_FALSE(run(connects(true)));
}

} // namespace
