#pragma once

#include <optional>
#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/task/run.hpp>

namespace penstock {

namespace detail {

/// The loop of one `block_on`. The thread keeps it for the next call. A thread at its end has
/// destroyed the kept loop, and each call then makes its own.
class BlockingLoop {
public:
    BlockingLoop();

    [[nodiscard]] EventLoop& operator*() const noexcept { return *loop_; }

private:
    std::optional<EventLoop> own_;
    EventLoop* loop_;
};

} // namespace detail

/// Blocks the calling thread until a task or operation has ended, and returns its result or
/// rethrows its exception. For threads that run no loop: `while (auto job =
/// block_on(jobs.receive())) ...`.
///
/// The thread keeps one loop for all such calls, so only the first call opens descriptors. Throws
/// `std::logic_error` on a thread that runs a loop (use `co_await`), and `std::system_error` if the
/// kernel has no descriptors left.
///
/// `block_on` also works in destructors that run at the end of a thread or of the program: those of
/// static objects, and of thread_local objects that are older than the thread's loop. That loop no
/// longer exists then, so each call creates one. `run` and `to_thread` work there too. TLS does
/// not, because OpenSSL frees its own state at exit.
template <Awaitable T> Awaited<T> block_on(T awaitable) {
    const detail::BlockingLoop loop;
    return (*loop).run(detail::to_task(std::move(awaitable)));
}

} // namespace penstock
