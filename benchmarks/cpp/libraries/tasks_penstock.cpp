// The task page with penstock::penstock.

#include "tasks.hpp"

#include <chrono>

#include <penstock/penstock.hpp>

namespace {

using penstock::Channel;
using penstock::Scope;
using penstock::Task;
using penstock::sync::Mutex;

penstock::EventLoop& loop() {
    static penstock::EventLoop one;
    return one;
}

Task<> count(int& counter) {
    ++counter;
    co_return;
}

Task<> spawn_and_join() {
    int ended = 0;
    (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
        for (int i = 0; i < bench::kBatch; ++i) {
            scope.spawn(count(ended));
        }
        co_return;
    });
    bench::require(ended == bench::kBatch, "a task did not run");
}

Task<> hop() {
    Channel<int> channel(1);
    const auto send = [](Channel<int>& into) -> Task<> {
        for (int i = 0; i < bench::kBatch; ++i) {
            (void)co_await into.send(i);
        }
    };
    const auto receive = [](Channel<int>& from) -> Task<> {
        for (int i = 0; i < bench::kBatch; ++i) {
            bench::require(co_await from.receive() == i, "a value was lost");
        }
    };
    co_await penstock::all(send(channel), receive(channel));
}

Task<> contend_for_mutex() {
    Mutex mutex;
    int counter = 0;
    const auto enter = [](Mutex& shared, int& into) -> Task<> {
        for (int i = 0; i < bench::kBatch / 2; ++i) {
            const auto guard = co_await shared.lock();
            ++into;
            (void)co_await penstock::yield(); // so that the other task waits
        }
    };
    co_await penstock::all(enter(mutex, counter), enter(mutex, counter));
    bench::require(counter == bench::kBatch, "the mutex let somebody pass");
}

Task<> arm_and_cancel() {
    for (int i = 0; i < bench::kBatch; ++i) {
        (void)co_await penstock::timeout(std::chrono::hours(1), penstock::yield());
    }
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_tasks(
        argc, argv,
        std::array{bench::Work{"spawn", [] { loop().run(spawn_and_join()); }},
                   bench::Work{"hop", [] { loop().run(hop()); }},
                   bench::Work{"mutex", [] { loop().run(contend_for_mutex()); }},
                   bench::Work{"timer", [] { loop().run(arm_and_cancel()); }}});
}
