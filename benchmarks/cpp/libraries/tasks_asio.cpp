// The task page with Asio's coroutines. Asio has no mutex; a channel with one token replaces it.

#include "tasks.hpp"

#include <chrono>
#include <memory>

#include <asio.hpp>
#include <asio/experimental/channel.hpp>

namespace {

using Channel = asio::experimental::channel<void(asio::error_code, int)>;

asio::io_context& context() {
    static asio::io_context one(ASIO_CONCURRENCY_HINT_UNSAFE);
    return one;
}

void run() {
    context().restart();
    context().run();
}

asio::awaitable<void> count(int& counter) {
    ++counter;
    co_return;
}

void spawn_and_join() {
    int ended = 0;
    for (int i = 0; i < bench::kBatch; ++i) {
        asio::co_spawn(context(), count(ended), asio::detached);
    }
    run();
    bench::require(ended == bench::kBatch, "a task did not run");
}

asio::awaitable<void> send(Channel& into) {
    for (int i = 0; i < bench::kBatch; ++i) {
        co_await into.async_send(asio::error_code(), i, asio::use_awaitable);
    }
}

asio::awaitable<void> receive(Channel& from) {
    for (int i = 0; i < bench::kBatch; ++i) {
        bench::require(co_await from.async_receive(asio::use_awaitable) == i, "a value was lost");
    }
}

void hop() {
    Channel channel(context(), 1);
    asio::co_spawn(context(), send(channel), asio::detached);
    asio::co_spawn(context(), receive(channel), asio::detached);
    run();
}

asio::awaitable<void> enter(Channel& token, int& counter) {
    for (int i = 0; i < bench::kBatch / 2; ++i) {
        co_await token.async_receive(asio::use_awaitable);
        ++counter;
        co_await asio::post(asio::use_awaitable); // so that the other task waits
        co_await token.async_send(asio::error_code(), 0, asio::use_awaitable);
    }
}

void contend_for_mutex() {
    Channel token(context(), 1);
    token.try_send(asio::error_code(), 0);
    int counter = 0;
    asio::co_spawn(context(), enter(token, counter), asio::detached);
    asio::co_spawn(context(), enter(token, counter), asio::detached);
    run();
    bench::require(counter == bench::kBatch, "the token let somebody pass");
}

asio::awaitable<void> arm_and_cancel() {
    asio::steady_timer timer(context());
    for (int i = 0; i < bench::kBatch; ++i) {
        timer.expires_after(std::chrono::hours(1));
        timer.async_wait([](asio::error_code) {});
        co_await asio::post(asio::use_awaitable);
        timer.cancel();
    }
}

void arm_and_cancel_all() {
    asio::co_spawn(context(), arm_and_cancel(), asio::detached);
    run();
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_tasks(argc, argv,
                            std::array{bench::Work{"spawn", &spawn_and_join},
                                       bench::Work{"hop", &hop},
                                       bench::Work{"mutex", &contend_for_mutex},
                                       bench::Work{"timer", &arm_and_cancel_all}});
}
