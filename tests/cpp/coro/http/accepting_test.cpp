// What servers of HTTP and of WebSockets have in common: how they accept connections, limit them,
// and keep the failure of one from the others.

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <gtest/gtest.h>

#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/http/server.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/shield.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/server.hpp>

#include "coro/http/running_server.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/request.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using penstock::testing::expect;
using penstock::testing::listen_on_loopback;
using penstock::testing::read_until;
using penstock::testing::Watchdog;

using Prepare = std::function<Task<Result<AnyStream>>(net::TcpStream)>;

struct Options {
    std::size_t connections = 100;
    std::chrono::milliseconds safe_idle = 1h;
    /// Of an accepted connection, before it is served.
    Prepare prepare = [](net::TcpStream stream) -> Task<Result<AnyStream>> {
        co_return AnyStream(std::move(stream));
    };
    /// What a served connection does.
    std::function<Task<void>()> work = []() -> Task<void> { co_return; };
};

/// A server of either kind. Each connection is asked something, works, and answers.
class Subject {
public:
    Subject() = default;
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;
    virtual ~Subject() = default;

    virtual Task<Result<>> serve() = 0;
    virtual void stop() = 0;
    [[nodiscard]] virtual std::size_t connections() const = 0;
    [[nodiscard]] virtual net::Endpoint endpoint() const = 0;
    /// Asks, and returns whether there was an answer.
    virtual Task<bool> ask(net::TcpStream& stream) = 0;

    void fail(std::error_code error, const std::exception_ptr& exception) {
        failures.push_back(http::ServerFailure{.error = error, .exception = exception}.to_string());
        failed.set();
    }

    std::vector<std::string> failures;
    sync::Event failed;
};

class HttpSubject final : public Subject {
public:
    explicit HttpSubject(Options options)
        : options_(std::move(options)), server_(settings()), listener_(listen_on_loopback()),
          endpoint_(expect(listener_.local_endpoint())) {
        server_.get("/", [this](http::Request&, http::Response& response) -> Task<void> {
            co_await options_.work();
            response.body("answer");
        });
    }

    Task<Result<>> serve() override {
        return server_.serve(std::move(listener_), options_.prepare);
    }
    void stop() override { server_.stop(1h); }
    [[nodiscard]] std::size_t connections() const override { return server_.connections(); }
    [[nodiscard]] net::Endpoint endpoint() const override { return endpoint_; }

    Task<bool> ask(net::TcpStream& stream) override {
        (void)co_await stream.write_all("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        std::string text;
        std::array<char, 1> next{};
        while (!text.ends_with("answer") && !text.ends_with("Internal Server Error\n")) {
            if ((co_await stream.read(next)).value_or(0) == 0) {
                co_return false;
            }
            text += next[0];
        }
        co_return text.starts_with("HTTP/1.1 200 ");
    }

    /// Another listener of the same server.
    Task<Result<>> serve(net::TcpListener listener) {
        return server_.serve(std::move(listener), options_.prepare);
    }

private:
    http::ServerOptions settings() {
        http::ServerOptions settings;
        settings.limits.connections = options_.connections;
        settings.timeouts.safe_idle = options_.safe_idle;
        settings.on_failure = [this](const http::ServerFailure& failure) {
            fail(failure.error, failure.exception);
        };
        return settings;
    }

    Options options_;
    http::Server server_;
    net::TcpListener listener_;
    net::Endpoint endpoint_;
};

class WebSocketSubject final : public Subject {
public:
    explicit WebSocketSubject(const Options& options)
        : work_(options.work), server_(listen_on_loopback(), settings(options)) {}

    Task<Result<>> serve() override {
        return server_.serve([this](ws::WebSocket& socket) -> Task<Result<>> {
            co_await work_();
            co_await unwrap(socket.send_text("answer"));
            for (;;) {
                const ws::Message message = co_await unwrap(socket.receive());
                co_await unwrap(socket.send(message));
            }
        });
    }
    void stop() override { server_.shutdown(1h); }
    [[nodiscard]] std::size_t connections() const override { return server_.connections(); }
    [[nodiscard]] net::Endpoint endpoint() const override {
        return expect(server_.local_endpoint());
    }

    /// The first time by the handshake, then by a message.
    Task<bool> ask(net::TcpStream& stream) override {
        const bool first = shaken_.insert(expect(stream.local_endpoint()).port()).second;
        (void)co_await stream.write_all(
            first ? std::string_view(penstock::testing::request)
                  : std::string_view("\x81\x86\0\0\0\0answer", 12)); // masked with zeros
        std::string text;
        std::array<char, 1> next{};
        while (!text.ends_with("\x81\x06"
                               "answer")) {
            if ((co_await stream.read(next)).value_or(0) == 0) {
                co_return false;
            }
            text += next[0];
        }
        co_return true;
    }

private:
    ws::ServerOptions settings(const Options& options) {
        return {.accept = {.limits = {.close = 20ms}}, // the clients answer no close frame
                .encrypt = options.prepare,
                .maximum_connections = options.connections,
                .on_error = [this](std::error_code error) { fail(error, nullptr); },
                .on_exception =
                    [this](const std::exception_ptr& thrown) { fail(std::error_code(), thrown); }};
    }

    std::function<Task<void>()> work_;
    std::set<std::uint16_t> shaken_; ///< the ports of clients that have made the handshake
    ws::Server server_;
};

class Accepting : public ::testing::TestWithParam<std::string_view> {
protected:
    [[nodiscard]] static std::unique_ptr<Subject> make(const Options& options) {
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
    const auto as_it_is = Options().prepare;
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
        Options options;
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

/// A client that the kernel has connected, and that nobody has accepted: the loop has not run.
net::TcpStream connected_by_kernel(const net::Endpoint& endpoint) {
    OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), endpoint.native(), endpoint.native_size()) != 0) {
        throw std::system_error(errno, std::system_category(), "connect");
    }
    return expect(net::TcpStream::adopt(std::move(socket)));
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
    Options options{.connections = 1, .safe_idle = 0ms};
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
    Options options;
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

/// The rest is of HTTP alone, whose connections wait for requests.
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

/// How often the loop goes round until then.
template <typename Condition> Task<std::size_t> rounds_until(Condition holds) {
    std::size_t rounds = 0;
    for (; !holds(); ++rounds) {
        (void)co_await yield();
    }
    co_return rounds;
}

/// A wait for a timer makes many more.
constexpr std::size_t few_rounds = 100;

TEST(WebSocketServerLimits, OneLimitIsForBothHandshakes) {
    const Watchdog watchdog;
    constexpr auto limit = 50ms;
    bool encrypted = false;
    bool failed = false;
    std::error_code error;
    ws::Server server(listen_on_loopback(),
                      {.accept = {.limits = {.handshake = limit}},
                       .encrypt = [&](net::TcpStream stream) -> Task<Result<AnyStream>> {
                           (void)co_await shield(sleep_for(limit + 1ms));
                           encrypted = true;
                           co_return AnyStream(std::move(stream));
                       },
                       .on_error =
                           [&](std::error_code reason) {
                               error = reason;
                               failed = true;
                           }});
    const auto talk = [&]() -> Task<Result<>> {
        net::TcpStream silent =
            expect(co_await net::TcpStream::connect(expect(server.local_endpoint())));
        (void)co_await rounds_until([&] { return encrypted; });
        EXPECT_LT(co_await rounds_until([&] { return failed; }), few_rounds);
        server.shutdown(1h);
        co_return Result<>();
    };
    expect(run(
        all(server.serve([](ws::WebSocket&) -> Task<Result<>> { co_return Result<>(); }), talk())));
    EXPECT_EQ(error, std::errc::timed_out);
}

TEST(WebSocketServerLimits, ASilentPeerHasOneLimitToAnswerACloseFrame) {
    const Watchdog watchdog;
    struct Case {
        std::string_view what;
        std::function<Task<Result<>>(ws::WebSocket&)> handler;
    };
    bool returned = false;
    const std::vector<Case> cases{
        {"closes", [](ws::WebSocket& socket) { return socket.close(); }},
        {"begins to close and waits", [](ws::WebSocket& socket) -> Task<Result<>> {
             co_await unwrap(socket.begin_close());
             co_return co_await shield(sleep_for(51ms));
         }}};
    for (const Case& each : cases) {
        SCOPED_TRACE(each.what);
        returned = false;
        ws::Server server(listen_on_loopback(), {.accept = {.limits = {.close = 50ms}}});
        const auto handler = [&](ws::WebSocket& socket) -> Task<Result<>> {
            const Result<> ended = co_await each.handler(socket);
            returned = true;
            co_return ended;
        };
        const auto talk = [&]() -> Task<Result<>> {
            net::TcpStream silent =
                expect(co_await net::TcpStream::connect(expect(server.local_endpoint())));
            expect(co_await silent.write_all(penstock::testing::request));
            (void)co_await rounds_until([&] { return returned; });
            EXPECT_LT(co_await rounds_until([&] { return server.connections() == 0; }), few_rounds);
            server.shutdown(1h);
            co_return Result<>();
        };
        expect(run(all(server.serve(handler), talk())));
    }
}

INSTANTIATE_TEST_SUITE_P(Servers, Accepting, ::testing::Values("HTTP", "WebSocket"),
                         [](const auto& info) { return std::string(info.param); });

} // namespace
