// The task page with the design of many coroutine libraries: frames on the heap, and every
// resumption through one queue behind a lock, which is needed where any thread may run any task.

#include "tasks.hpp"

#include <coroutine>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace {

class Queue {
public:
    void push(std::coroutine_handle<> coroutine) {
        const std::lock_guard guard(lock_);
        ready_.push_back(coroutine);
    }

    void run() {
        for (;;) {
            std::coroutine_handle<> next;
            {
                const std::lock_guard guard(lock_);
                if (ready_.empty()) {
                    return;
                }
                next = ready_.front();
                ready_.pop_front();
            }
            next.resume();
        }
    }

private:
    std::mutex lock_;
    std::deque<std::coroutine_handle<>> ready_;
};

Queue queue;

struct Detached {
    struct promise_type {
        Detached get_return_object() noexcept {
            queue.push(std::coroutine_handle<promise_type>::from_promise(*this));
            return {};
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

struct Reschedule {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const { queue.push(waiting); }
    void await_resume() const noexcept {}
};

class Slot {
public:
    struct Wait {
        Slot& slot;
        bool wanted;
        bool await_ready() const noexcept { return slot.full_ == wanted; }
        void await_suspend(std::coroutine_handle<> waiting) const { slot.waiting_ = waiting; }
        void await_resume() const noexcept {}
    };

    Wait until(bool full) { return {*this, full}; }

    void put(int value) {
        value_ = value;
        set(true);
    }

    int take() {
        set(false);
        return value_;
    }

private:
    void set(bool full) {
        full_ = full;
        if (const std::coroutine_handle<> waiting = std::exchange(waiting_, nullptr)) {
            queue.push(waiting);
        }
    }

    int value_ = 0;
    bool full_ = false;
    std::coroutine_handle<> waiting_;
};

Detached count(int& counter) {
    ++counter;
    co_return;
}

void spawn_and_join() {
    int ended = 0;
    for (int i = 0; i < bench::kBatch; ++i) {
        count(ended);
    }
    queue.run();
    bench::require(ended == bench::kBatch, "a task did not run");
}

Detached send(Slot& into) {
    for (int i = 0; i < bench::kBatch; ++i) {
        co_await into.until(false);
        into.put(i);
    }
}

Detached receive(Slot& from) {
    for (int i = 0; i < bench::kBatch; ++i) {
        co_await from.until(true);
        bench::require(from.take() == i, "a value was lost");
    }
}

void hop() {
    Slot slot;
    send(slot);
    receive(slot);
    queue.run();
}

Detached enter(Slot& token, int& counter) {
    for (int i = 0; i < bench::kBatch / 2; ++i) {
        co_await token.until(true);
        token.take();
        ++counter;
        co_await Reschedule();
        token.put(0);
        co_await Reschedule();
    }
}

void contend_for_mutex() {
    Slot token;
    token.put(0);
    int counter = 0;
    enter(token, counter);
    enter(token, counter);
    queue.run();
    bench::require(counter == bench::kBatch, "the token let somebody pass");
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_tasks(argc, argv,
                            std::array{bench::Work{"spawn", &spawn_and_join},
                                       bench::Work{"hop", &hop},
                                       bench::Work{"mutex", &contend_for_mutex}});
}
