#include "asio/asio_loads.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <asio.hpp>
#include <asio/ssl.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::testing::asio_loads {

namespace {

using asio::ip::tcp;
namespace ssl = asio::ssl;
using Event = CountedSteps::Event;

asio::awaitable<void> watch_data(CountedSteps& steps) {
    tcp::socket socket(co_await asio::this_coro::executor, tcp::v4(), ::dup(steps.descriptor()));
    std::array<char, 1> byte{};
    while (!steps.all_handled()) {
        co_await socket.async_read_some(asio::buffer(byte), asio::use_awaitable);
        steps.handle();
    }
}

asio::awaitable<void> watch_timer(CountedSteps& steps) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (!steps.all_handled()) {
        timer.expires_at(
            std::chrono::steady_clock::time_point(std::chrono::nanoseconds(steps.deadline())));
        co_await timer.async_wait(asio::use_awaitable);
        steps.handle();
    }
}

/// Runs `load(context, steps)`, a coroutine, beside the event. The first that ends the load stops
/// the context.
template <typename Load> int measure(Event event, std::int64_t work_ns, Load load) {
    CountedSteps steps(event, work_ns);
    asio::io_context context(1);
    asio::co_spawn(context, event == Event::data ? watch_data(steps) : watch_timer(steps),
                   asio::detached);
    asio::co_spawn(context, load(steps), [&](const std::exception_ptr& thrown) {
        EXPECT_FALSE(thrown);
        context.stop();
    });
    context.run();
    EXPECT_TRUE(steps.done()) << "the load was too short";
    return steps.worst();
}

struct Pair {
    tcp::socket near;
    tcp::socket far;
};

asio::awaitable<Pair> connect_pair() {
    const auto executor = co_await asio::this_coro::executor;
    tcp::acceptor acceptor(executor, {asio::ip::address_v4::loopback(), 0});
    tcp::socket near(executor);
    near.connect(acceptor.local_endpoint());
    tcp::socket far = acceptor.accept();
    co_return Pair{std::move(near), std::move(far)};
}

asio::awaitable<void> work_in_turns(CountedSteps& steps) {
    while (!steps.done()) {
        steps.step();
        co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    }
}

/// Reads a little at a time.
template <typename S> asio::awaitable<void> drain(CountedSteps& steps, S& stream) {
    std::array<char, 16> part{};
    while (!steps.done()) {
        co_await stream.async_read_some(asio::buffer(part), asio::use_awaitable);
        steps.step();
    }
}

} // namespace

int ready_tasks(Event event, int tasks, std::int64_t work_ns) {
    return measure(event, work_ns, [=](CountedSteps& steps) -> asio::awaitable<void> {
        for (int i = 1; i < tasks; ++i) {
            asio::co_spawn(co_await asio::this_coro::executor, work_in_turns(steps),
                           asio::detached);
        }
        co_await work_in_turns(steps);
    });
}

int flood(Event event, const std::string& bytes) {
    return measure(
        event, CountedSteps::usual_work_ns, [&](CountedSteps& steps) -> asio::awaitable<void> {
            Pair pair = co_await connect_pair();
            co_await asio::async_write(pair.near, asio::buffer(bytes), asio::use_awaitable);
            co_await drain(steps, pair.far);
        });
}

int tls_flood(Event event, const std::string& bytes, const std::string& certificate_file,
              const std::string& key_file) {
    return measure(
        event, CountedSteps::usual_work_ns, [&](CountedSteps& steps) -> asio::awaitable<void> {
            const auto executor = co_await asio::this_coro::executor;
            Pair pair = co_await connect_pair();
            ssl::context client(ssl::context::tls_client);
            ssl::context server(ssl::context::tls_server);
            server.use_certificate_chain_file(certificate_file);
            server.use_private_key_file(key_file, ssl::context::pem);
            ssl::stream<tcp::socket> near(std::move(pair.near), client);
            ssl::stream<tcp::socket> far(std::move(pair.far), server);
            const auto connect = [&]() -> asio::awaitable<void> {
                co_await near.async_handshake(ssl::stream_base::client, asio::use_awaitable);
                co_await asio::async_write(near, asio::buffer(bytes), asio::use_awaitable);
            };
            asio::co_spawn(executor, connect(), asio::detached);
            co_await far.async_handshake(ssl::stream_base::server, asio::use_awaitable);
            co_await drain(steps, far);
        });
}

int pipelined_requests(Event event, const std::string& requests, const std::string& answer) {
    return measure(
        event, CountedSteps::usual_work_ns, [&](CountedSteps& steps) -> asio::awaitable<void> {
            Pair pair = co_await connect_pair();
            co_await asio::async_write(pair.near, asio::buffer(requests), asio::use_awaitable);
            std::string input;
            while (!steps.done()) {
                const std::size_t size = co_await asio::async_read_until(
                    pair.far, asio::dynamic_buffer(input), "\r\n\r\n", asio::use_awaitable);
                input.erase(0, size);
                steps.step();
                co_await asio::async_write(pair.far, asio::buffer(answer), asio::use_awaitable);
            }
        });
}

int web_socket_flood(Event event, const std::string& frames) {
    return measure(
        event, CountedSteps::usual_work_ns, [&](CountedSteps& steps) -> asio::awaitable<void> {
            Pair pair = co_await connect_pair();
            co_await asio::async_write(pair.near, asio::buffer(frames), asio::use_awaitable);
            std::array<unsigned char, 2> head{};
            std::vector<char> rest;
            while (!steps.done()) {
                co_await asio::async_read(pair.far, asio::buffer(head), asio::use_awaitable);
                rest.resize(4U + (head[1] & 0x7fU)); // with the key of the mask
                co_await asio::async_read(pair.far, asio::buffer(rest), asio::use_awaitable);
                steps.step();
            }
        });
}

} // namespace penstock::testing::asio_loads
