// What servers of HTTP and of WebSockets have in common: how they accept connections, limit them,
// and keep the failure of one from the others.

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/http/server.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>
#include <penstock/ws/server.hpp>

#include "coro/http/accepting_subjects.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using penstock::testing::connected_by_kernel;
using penstock::testing::expect;
using penstock::testing::HttpSubject;
using penstock::testing::Prepare;
using penstock::testing::Subject;
using penstock::testing::SubjectOptions;
using penstock::testing::Watchdog;
using penstock::testing::WebSocketSubject;

class Accepting : public ::testing::TestWithParam<std::string_view> {
protected:
    [[nodiscard]] static std::unique_ptr<Subject> make(const SubjectOptions& options) {
        if (GetParam() == "HTTP") {
            return std::make_unique<HttpSubject>(options);
        }
        return std::make_unique<WebSocketSubject>(options);
    }

    /// Runs `talk(server)` beside the server.
    template <typename Talk> static void serve(Subject& subject, Talk talk) {
        const auto talking = [&]() -> Task<Result<>> {
            co_await talk(subject);
            subject.stop();
            co_return Result<>();
        };
        const auto program = [&]() -> Task<> {
            EXPECT_EQ(subject.connections(), 0U);
            expect(co_await all(subject.serve(), talking()));
            EXPECT_EQ(subject.connections(), 0U);
        };
        run(program());
    }

    static Task<net::TcpStream> dial(const Subject& subject) {
        co_return expect(co_await net::TcpStream::connect(subject.endpoint()));
    }

    const Watchdog watchdog_;
};

Task<Result<AnyStream>> throw_later(net::TcpStream /*stream*/) {
    (void)co_await yield();
    throw std::runtime_error("a defect");
}

TEST_P(Accepting, WhatOneConnectionThrowsEndsThatOneAlone) {
    struct Case {
        std::string_view what;
        Prepare prepare;
        std::function<Task<void>()> work;
    };
    const auto nothing = []() -> Task<void> { co_return; };
    const auto as_it_is = SubjectOptions().prepare;
    const std::vector<Case> cases{
        {"a task that prepares the stream", throw_later, nothing},
        {"the call that makes this task",
         [](const net::TcpStream& /*stream*/) -> Task<Result<AnyStream>> {
             throw std::runtime_error("a defect");
         },
         nothing},
        {"a handler", as_it_is,
         []() -> Task<void> {
             (void)co_await yield();
             throw std::runtime_error("a defect");
         }},
    };
    for (const Case& each : cases) {
        SCOPED_TRACE(each.what);
        bool fails = false;
        SubjectOptions options;
        options.prepare = [&](net::TcpStream stream) {
            return fails ? each.prepare(std::move(stream)) : as_it_is(std::move(stream));
        };
        options.work = [&] { return fails ? each.work() : nothing(); };
        const std::unique_ptr<Subject> subject = make(options);
        serve(*subject, [&](Subject& server) -> Task<void> {
            net::TcpStream innocent = co_await dial(server);
            EXPECT_TRUE(co_await server.ask(innocent));
            fails = true;
            net::TcpStream unlucky = co_await dial(server);
            EXPECT_FALSE(co_await server.ask(unlucky));
            (void)co_await server.failed.wait();
            fails = false;
            unlucky.close();
            net::TcpStream next = co_await dial(server);
            EXPECT_TRUE(co_await server.ask(next));
            EXPECT_TRUE(co_await server.ask(innocent));
        });
        EXPECT_EQ(subject->failures.size(), 1U);
        EXPECT_TRUE(subject->failures.front().ends_with("a defect")) << subject->failures.front();
    }
}

TEST_P(Accepting, PausesWithoutDescriptorsAndReportsOnce) {
    const std::unique_ptr<Subject> subject = make({});
    serve(*subject, [&](Subject& server) -> Task<void> {
        net::TcpStream first = co_await dial(server);
        EXPECT_TRUE(co_await server.ask(first));
        net::TcpStream second = connected_by_kernel(server.endpoint());
        {
            const penstock::testing::NoDescriptors none;
            (void)co_await server.failed.wait();
            EXPECT_TRUE(co_await server.ask(first));
        }
        EXPECT_TRUE(co_await server.ask(second));
        EXPECT_EQ(server.connections(), 2U);
    });
    EXPECT_EQ(subject->failures, std::vector<std::string>{"Too many open files"});
}

TEST_P(Accepting, ABusyConnectionKeepsItsPlace) {
    sync::Event working;
    sync::Event released;
    SubjectOptions options{.connections = 1, .safe_idle = 0ms};
    options.work = [&]() -> Task<void> {
        working.set();
        (void)co_await released.wait();
    };
    const std::unique_ptr<Subject> subject = make(options);
    serve(*subject, [&](Subject& server) -> Task<void> {
        net::TcpStream busy = co_await dial(server);
        const auto first = [&]() -> Task<void> {
            EXPECT_TRUE(co_await server.ask(busy));
            EXPECT_EQ(server.connections(), 1U);
            busy.close();
        };
        const auto second = [&]() -> Task<void> {
            (void)co_await working.wait();
            net::TcpStream waiting = co_await dial(server);
            // The server tries to find a place for it several times.
            (void)co_await sleep_for(250ms);
            EXPECT_EQ(server.connections(), 1U);
            released.set();
            EXPECT_TRUE(co_await server.ask(waiting));
        };
        co_await all(first(), second());
    });
    EXPECT_EQ(subject->failures, std::vector<std::string>());
}

TEST_P(Accepting, AHandshakeThatTheServersEndCutsShortIsNotReported) {
    sync::Event preparing;
    SubjectOptions options;
    options.prepare = [&](net::TcpStream stream) -> Task<Result<AnyStream>> {
        preparing.set();
        co_await unwrap(sleep_for(1h));
        co_return AnyStream(std::move(stream));
    };
    const std::unique_ptr<Subject> subject = make(options);
    Canceller canceller;
    const auto talk = [&]() -> Task<void> {
        const net::TcpStream client = co_await dial(*subject);
        (void)co_await preparing.wait();
        canceller.cancel();
    };
    const auto [served, talked] =
        run(all_settled(cancellable(canceller, subject->serve()), talk()));
    EXPECT_EQ(served.error(), std::errc::operation_canceled);
    EXPECT_EQ(subject->failures, std::vector<std::string>());
}

TEST_P(Accepting, ServesNobodyWithALimitOfNone) {
    EXPECT_THROW((void)make({.connections = 0}), std::invalid_argument);
    EXPECT_EQ(ws::Server::listen(net::Endpoint::loopback(0), {.maximum_connections = 0}).error(),
              std::errc::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Servers, Accepting, ::testing::Values("HTTP", "WebSocket"),
                         [](const auto& info) { return std::string(info.param); });

} // namespace
