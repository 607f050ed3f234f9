#include <chrono>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::expect;
using penstock::testing::listen_on_loopback;
using penstock::testing::Watchdog;
namespace net = penstock::net;

/// An address that does not answer: its listener's backlog is full.
class SilentAddress {
public:
    [[nodiscard]] Task<net::Endpoint> open() {
        const net::TcpListener::Options no_room{.backlog = 0};
        listener_ = expect(net::TcpListener::listen(net::Endpoint::loopback(0), no_room));
        const net::Endpoint endpoint = expect(listener_.local_endpoint());
        for (;;) {
            auto stream = co_await penstock::timeout(20ms, net::TcpStream::connect(endpoint));
            if (!stream) {
                EXPECT_EQ(stream.error(), std::errc::timed_out);
                co_return endpoint;
            }
            kept_.push_back(std::move(*stream));
        }
    }

private:
    net::TcpListener listener_;
    std::vector<net::TcpStream> kept_;
};

TEST(ConnectByName, FindsTheFamilyThatListens) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const net::TcpListener listener = listen_on_loopback(); // not on ::1
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        const net::TcpStream stream =
            expect(co_await net::TcpStream::connect("localhost", endpoint.port()));
        EXPECT_EQ(stream.peer_endpoint(), endpoint);
    };
    run(program());
}

TEST(ConnectByName, TakesANumericAddress) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const net::TcpListener listener = listen_on_loopback();
        const std::uint16_t port = expect(listener.local_endpoint()).port();
        EXPECT_TRUE(co_await net::TcpStream::connect("127.0.0.1", port));
    };
    run(program());
}

TEST(ConnectByName, TriesTheNextAddressAtOnceAfterARefusal) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const net::TcpListener listener = listen_on_loopback();
        const net::Endpoint open = expect(listener.local_endpoint());
        net::TcpListener other = listen_on_loopback();
        const net::Endpoint refused = expect(other.local_endpoint());
        other.close();
        const net::TcpStream stream =
            expect(co_await net::TcpStream::connect(std::vector{refused, refused, open}));
        EXPECT_EQ(stream.peer_endpoint(), open);
        EXPECT_EQ((co_await net::TcpStream::connect(std::vector{refused, refused})).error(),
                  std::errc::connection_refused);
    };
    run(program());
}

TEST(ConnectByName, DoesNotWaitForAnUnresponsiveAddress) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        SilentAddress silent;
        const net::Endpoint nobody = co_await silent.open();
        const net::TcpListener listener = listen_on_loopback();
        const net::Endpoint open = expect(listener.local_endpoint());
        const auto begin = std::chrono::steady_clock::now();
        const net::TcpStream stream =
            expect(co_await net::TcpStream::connect(std::vector{nobody, open}));
        EXPECT_EQ(stream.peer_endpoint(), open);
        EXPECT_GE(std::chrono::steady_clock::now() - begin, net::TcpStream::attempt_delay)
            << "the first address has its head start";
    };
    run(program());
}

TEST(ConnectByName, CanBeCancelled) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        SilentAddress silent;
        const net::Endpoint nobody = co_await silent.open();
        const Result<net::TcpStream> stream =
            co_await penstock::timeout(5ms, net::TcpStream::connect(std::vector{nobody, nobody}));
        EXPECT_EQ(stream.error(), std::errc::timed_out);
    };
    run(program());
}

TEST(ConnectByName, NoAddressIsAnError) {
    const auto program = []() -> Task<> {
        EXPECT_EQ((co_await net::TcpStream::connect(std::vector<net::Endpoint>())).error(),
                  std::errc::address_not_available);
    };
    run(program());
}

} // namespace
