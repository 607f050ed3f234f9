// What a server of HTTP does with connections that wait for a request, when places, descriptors or
// memory lack for others.

#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/http/server.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/http/accepting_subjects.hpp"
#include "coro/http/running_server.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using penstock::testing::connected_by_kernel;
using penstock::testing::expect;
using penstock::testing::HttpSubject;
using penstock::testing::listen_on_loopback;
using penstock::testing::read_until;
using penstock::testing::Watchdog;

class AcceptingHttp : public ::testing::Test {
protected:
    /// All that comes until the server closes.
    static Task<std::string> rest_of(net::TcpStream& stream) {
        co_return expect(co_await read_all_text(stream));
    }

    const Watchdog watchdog_;
};

TEST_F(AcceptingHttp, TheLongestIdleConnectionGivesItsPlace) {
    HttpSubject subject({.connections = 2, .safe_idle = 0ms});
    const auto talk = [&]() -> Task<Result<>> {
        net::TcpStream older = expect(co_await net::TcpStream::connect(subject.endpoint()));
        net::TcpStream newer = expect(co_await net::TcpStream::connect(subject.endpoint()));
        EXPECT_TRUE(co_await subject.ask(older));
        EXPECT_TRUE(co_await subject.ask(newer));
        EXPECT_TRUE(co_await subject.ask(older)); // now the other one is idle for longer
        net::TcpStream third = expect(co_await net::TcpStream::connect(subject.endpoint()));
        EXPECT_TRUE(co_await subject.ask(third));
        EXPECT_EQ(co_await rest_of(newer), "");
        EXPECT_TRUE(co_await subject.ask(older));
        EXPECT_EQ(subject.connections(), 2U);
        subject.stop();
        co_return Result<>();
    };
    expect(run(all(subject.serve(), talk())));
    EXPECT_EQ(subject.failures, std::vector<std::string>());
}

TEST_F(AcceptingHttp, AConnectionThatHasAskedNothingGivesItsPlaceToo) {
    HttpSubject subject({.connections = 1, .safe_idle = 0ms});
    const auto talk = [&]() -> Task<Result<>> {
        net::TcpStream silent = expect(co_await net::TcpStream::connect(subject.endpoint()));
        net::TcpStream next = expect(co_await net::TcpStream::connect(subject.endpoint()));
        EXPECT_TRUE(co_await subject.ask(next));
        EXPECT_EQ(co_await rest_of(silent), "");
        subject.stop();
        co_return Result<>();
    };
    expect(run(all(subject.serve(), talk())));
}

TEST_F(AcceptingHttp, ADescriptorOfAnIdleConnectionServesANewOne) {
    HttpSubject subject({.safe_idle = 0ms});
    const auto talk = [&]() -> Task<Result<>> {
        net::TcpStream idle = expect(co_await net::TcpStream::connect(subject.endpoint()));
        EXPECT_TRUE(co_await subject.ask(idle));
        net::TcpStream next = connected_by_kernel(subject.endpoint());
        {
            const penstock::testing::NoDescriptors none;
            EXPECT_EQ(co_await rest_of(idle), "");
        }
        EXPECT_TRUE(co_await subject.ask(next));
        subject.stop();
        co_return Result<>();
    };
    expect(run(all(subject.serve(), talk())));
}

/// A listener that has no memory for some of its waits.
class PoorListener {
public:
    PoorListener(net::TcpListener listener, int& failures) noexcept
        : listener_(std::move(listener)), failures_(&failures) {}

    Task<Result<net::TcpStream>> accept() {
        if (*failures_ > 0) {
            --*failures_;
            throw std::bad_alloc();
        }
        co_return co_await listener_.accept();
    }
    void close() { listener_.close(); }

private:
    net::TcpListener listener_;
    int* failures_;
};

TEST_F(AcceptingHttp, PausesWithoutMemoryAndEndsNoConnection) {
    http::ServerOptions options;
    std::vector<std::string> failures;
    sync::Event failed;
    options.on_failure = [&](const http::ServerFailure& failure) {
        failures.push_back(failure.to_string());
        failed.set();
    };
    http::Server server(options);
    server.get("/", [](http::Request&, http::Response& response) { response.body("answer"); });
    net::TcpListener listener = listen_on_loopback();
    const net::Endpoint endpoint = expect(listener.local_endpoint());
    const auto ask = [](net::TcpStream& stream) -> Task<void> {
        expect(co_await stream.write_all("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        (void)co_await read_until(stream, "answer");
    };
    int lacking = 0;
    const auto talk = [&]() -> Task<Result<>> {
        net::TcpStream first = expect(co_await net::TcpStream::connect(endpoint));
        co_await ask(first);
        lacking = 2;
        net::TcpStream second = expect(co_await net::TcpStream::connect(endpoint));
        (void)co_await failed.wait(); // now nothing is accepted
        net::TcpStream third = expect(co_await net::TcpStream::connect(endpoint));
        co_await ask(first);
        co_await ask(second);
        co_await ask(third);
        server.stop(1h);
        co_return Result<>();
    };
    expect(run(all(server.serve(PoorListener(std::move(listener), lacking)), talk())));
    EXPECT_EQ(failures, std::vector<std::string>{"Cannot allocate memory"});
    EXPECT_EQ(lacking, 0);
}

using penstock::detail::AcceptLoop;

class NoReporter final : public AcceptLoop::Reporter {
    void cannot_accept(std::error_code error) noexcept override { ADD_FAILURE() << error; }
    void handle(const std::exception_ptr& /*thrown*/) noexcept override { ADD_FAILURE(); }
};

/// A connection that counts how many of its kind were told to end.
class Told final : public AcceptLoop::Endable {
public:
    explicit Told(int& count) noexcept : count_(count) {}

    sync::Event event;

private:
    void end() noexcept override {
        ++count_;
        event.set();
    }

    int& count_;
};

/// The connections are numbers: 0, 1, 2, and no more.
class NumberListener {
public:
    Task<Result<int>> accept() {
        if (next_ == 3) {
            co_await unwrap(sleep_for(1h));
        }
        co_return next_++;
    }
    void close() {}

private:
    int next_ = 0;
};

TEST_F(AcceptingHttp, ANewConnectionEndsOneIdleConnectionHoweverLongThatTakes) {
    NoReporter reporter;
    AcceptLoop accepting(2, 0ns, reporter);
    int told = 0;
    sync::Event may_end;
    sync::Event served_last;
    auto serve = [&](int number, AcceptLoop::Place /*place*/, AcceptLoop::Home&) -> Task<void> {
        if (number == 2) {
            served_last.set();
            co_return;
        }
        Told connection(told);
        const AcceptLoop::Listed listed(accepting, connection);
        (void)co_await connection.event.wait();
        (void)co_await may_end.wait();
    };
    NumberListener listener;
    const auto watch = [&]() -> Task<Result<>> {
        (void)co_await sleep_for(250ms); // the server looks for a place several times meanwhile
        EXPECT_EQ(told, 1);
        EXPECT_EQ(accepting.connections(), 2U);
        may_end.set();
        (void)co_await served_last.wait();
        EXPECT_EQ(told, 1);
        accepting.stop(1h);
        co_return Result<>();
    };
    expect(run(all(accepting.serve(listener, serve), watch())));
}

TEST_F(AcceptingHttp, AListenerThatWaitsHoldsNoPlace) {
    HttpSubject subject({.connections = 1});
    net::TcpListener other = listen_on_loopback();
    const net::Endpoint elsewhere = expect(other.local_endpoint());
    const auto talk = [&]() -> Task<Result<>> {
        for (int i = 0; i < 3; ++i) {
            for (const net::Endpoint& endpoint : {subject.endpoint(), elsewhere}) {
                net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
                EXPECT_TRUE(co_await subject.ask(stream));
                EXPECT_EQ(subject.connections(), 1U);
            }
        }
        subject.stop();
        co_return Result<>();
    };
    const auto program = [&]() -> Task<> {
        EXPECT_EQ(subject.connections(), 0U);
        expect(co_await all(subject.serve(), subject.serve(std::move(other)), talk()));
        EXPECT_EQ(subject.connections(), 0U);
    };
    run(program());
}

} // namespace
