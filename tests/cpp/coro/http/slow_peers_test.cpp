// Peers that read slowly, late or not at all, of each way in which a server sends.

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <penstock/http/server.hpp>
#include <penstock/net/unix_listener.hpp>
#include <penstock/net/unix_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/http/running_server.hpp"
#include "coro/support/slow_peer.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using penstock::testing::connect_narrow;
using penstock::testing::expect;
using penstock::testing::listen_wide;
using penstock::testing::patient_options;
using penstock::testing::read_until;
using penstock::testing::request_for;
using penstock::testing::slow_size;
using penstock::testing::SlowSite;
using penstock::testing::strict_options;
using penstock::testing::until_gone;
using penstock::testing::Watchdog;

/// Runs `client(endpoint)` beside the server.
template <typename Client> void serve(SlowSite& site, Client client) {
    const auto asking = [&](net::Endpoint endpoint) -> Task<Result<>> {
        co_await client(endpoint);
        site.server.stop(0s);
        co_return Result<>();
    };
    const auto program = [&]() -> Task<> {
        net::TcpListener listener = listen_wide();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        expect(co_await all(site.server.serve(std::move(listener)), asking(endpoint)));
    };
    run(program());
}

constexpr std::string_view senders[] = {"/body", "/parts", "/files/large", "/push"};

TEST(SlowPeers, GetAllOfWhatIsSentIfTheyReadSteadily) {
    const Watchdog watchdog;
    SlowSite site(patient_options());
    serve(site, [&](net::Endpoint endpoint) -> Task<void> {
        const auto ask = [&](std::string_view path) -> Task<Result<>> {
            net::TcpStream stream = co_await connect_narrow(endpoint);
            co_await unwrap(stream.write_all(request_for(path)));
            (void)co_await read_until(stream, "\r\n\r\n");
            const Result<std::size_t> size = co_await penstock::testing::read_steadily(stream);
            EXPECT_TRUE(size) << path << ": " << size.error().message();
            EXPECT_GE(size.value_or(0), slow_size) << path;
            co_return Result<>();
        };
        expect(co_await all(ask(senders[0]), ask(senders[1]), ask(senders[2]), ask(senders[3])));
    });
    EXPECT_FALSE(site.error) << site.error.message();
}

TEST(SlowPeers, AreGoneInTimeIfTheyReadNothingAndWhatWasAcceptedStillArrives) {
    const Watchdog watchdog;
    SlowSite site(strict_options());
    serve(site, [&](net::Endpoint endpoint) -> Task<void> {
        for (const std::string_view path : senders) {
            const std::size_t before = site.server.connections();
            site.error.clear();
            net::TcpStream stream = co_await connect_narrow(endpoint);
            expect(co_await stream.write_all(request_for(path)));
            (void)co_await read_until(stream, "\r\n\r\n");
            co_await until_gone(site.server, before);
            const Result<std::string> rest = co_await read_all_text(stream);
            EXPECT_TRUE(rest) << path << ": " << rest.error().message();
            EXPECT_LT(rest.value_or("").size(), slow_size) << path;
            EXPECT_GT(rest.value_or("").size(), 100'000U) << path;
            if (path == "/parts" || path == "/push") { // the others need no handler
                EXPECT_EQ(site.error, std::errc::timed_out) << path;
            }
        }
    });
}

TEST(SlowPeers, WithoutAFramingAreResetBecauseNothingElseTellsThatAPartIsMissing) {
    const Watchdog watchdog;
    SlowSite site(strict_options());
    serve(site, [&](net::Endpoint endpoint) -> Task<void> {
        const std::size_t before = site.server.connections();
        net::TcpStream stream = co_await connect_narrow(endpoint);
        expect(co_await stream.write_all("GET /parts HTTP/1.0\r\n\r\n"));
        (void)co_await read_until(stream, "\r\n\r\n");
        co_await until_gone(site.server, before);
        const Result<std::string> rest = co_await read_all_text(stream);
        EXPECT_EQ(rest ? std::error_code() : rest.error(), std::errc::connection_reset);
    });
}

struct Talk {
    std::string_view path;
    codec::websocket::Opcode opcode;
    std::size_t size;
};

TEST(SlowPeers, ThatTalkAndNeverReadAreGoneInTimeToo) {
    using codec::websocket::Opcode;
    const Watchdog watchdog;
    SlowSite site(strict_options());
    serve(site, [&](net::Endpoint endpoint) -> Task<void> {
        for (const Talk& talk :
             {Talk{"/receive", Opcode::ping, 125}, Talk{"/echo", Opcode::ping, 0},
              Talk{"/echo", Opcode::text, 30'000}}) {
            site.error.clear();
            net::TcpStream stream = co_await connect_narrow(endpoint);
            expect(co_await stream.write_all(request_for(talk.path)));
            (void)co_await read_until(stream, "\r\n\r\n");
            std::string many;
            while (many.size() < 300'000) {
                many += penstock::testing::frame(talk.opcode, std::string(talk.size, 'x'));
            }
            Result<> written;
            while (written) {
                written = co_await stream.write_all(many);
            }
            EXPECT_EQ(site.error, std::errc::timed_out) << talk.path << " " << talk.size;
        }
    });
}

TEST(SlowPeers, WithPingsTheTimeForAnAnswerLimitsAPongToo) {
    const Watchdog watchdog;
    http::ServerOptions options = strict_options();
    options.timeouts.write = http::ServerTimeouts::none;
    SlowSite site(options);
    std::error_code ended;
    ws::AcceptOptions accept;
    accept.limits.write = ws::Limits::no_time;
    accept.limits.write_rate = 1'000'000'000;
    accept.limits.ping_timeout = 100ms;
    accept.limits.close = 100ms;
    const auto receive = [&](ws::WebSocket& socket) -> Task<Result<>> {
        for (;;) {
            if (const auto message = co_await socket.receive(); !message) {
                ended = message.error();
                co_return failure(ended);
            }
        }
    };
    site.server.upgrade("/pinged", "websocket", ws::upgrade_handler(receive, accept));
    serve(site, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = co_await connect_narrow(endpoint);
        expect(co_await stream.write_all(request_for("/pinged")));
        (void)co_await read_until(stream, "\r\n\r\n");
        std::string many;
        while (many.size() < 300'000) {
            many += penstock::testing::frame(codec::websocket::Opcode::ping, std::string(100, 'x'));
        }
        Result<> written;
        while (written) {
            written = co_await stream.write_all(many);
        }
    });
    EXPECT_EQ(ended, std::errc::timed_out);
}

TEST(SlowPeers, OfAUnixSocketHaveTheSameLimits) {
    const Watchdog watchdog;
    const penstock::testing::TemporaryFolder folder;
    for (const bool steady : {true, false}) {
        SlowSite site(steady ? patient_options() : strict_options());
        const std::string path = folder.path(steady ? "steady" : "silent");
        const auto asking = [&]() -> Task<Result<>> {
            const std::size_t before = site.server.connections();
            auto stream =
                co_await unwrap(net::UnixStream::connect(expect(net::UnixEndpoint::path(path))));
            co_await unwrap(stream.write_all(request_for("/parts")));
            (void)co_await read_until(stream, "\r\n\r\n");
            if (steady) {
                const auto size = co_await penstock::testing::read_steadily(stream);
                EXPECT_GE(size.value_or(0), slow_size);
            } else {
                co_await until_gone(site.server, before);
                const Result<std::string> rest = co_await read_all_text(stream);
                EXPECT_LT(rest.value_or("").size(), slow_size);
            }
            site.server.stop(0s);
            co_return Result<>();
        };
        const auto program = [&]() -> Task<> {
            net::UnixListener listener =
                expect(net::UnixListener::listen(expect(net::UnixEndpoint::path(path))));
            expect(co_await all(site.server.serve(std::move(listener)), asking()));
        };
        run(program());
        EXPECT_EQ(site.error == std::errc::timed_out, !steady) << site.error.message();
    }
}

} // namespace
