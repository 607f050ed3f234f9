#pragma once

#include <optional>
#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/task/run.hpp>

namespace penstock {

namespace detail {

/// The loop of one `block_on`. The thread keeps it for the next call. When the thread has already
/// destroyed the one that it kept, because it is at its end, each call has one of its own.
class BlockingLoop {
public:
    BlockingLoop();

    [[nodiscard]] EventLoop& operator*() const noexcept { return *loop_; }

private:
    std::optional<EventLoop> own_;
    EventLoop* loop_;
};

} // namespace detail

/// Blocks a plain thread until a task or operation has ended, and returns its result. For the
/// threads of a program that run no loop: `while (auto job = block_on(jobs.receive())) ...`.
///
/// The thread keeps one loop for all such calls, so a call costs no descriptors after the first.
/// Throws `std::logic_error` on a thread that runs a loop (use `co_await`), and `std::system_error`
/// if the kernel has no descriptors left.
///
/// Works in destructors at the end of the thread or program too: of static objects, and of
/// thread_local objects that are older than the thread's loop. The loop has ended by then, so each
/// call makes one. `run` and `to_thread` work there as well. TLS does not: OpenSSL frees what it
/// needs at exit.
template <Awaitable T> Awaited<T> block_on(T awaitable) {
    const detail::BlockingLoop loop;
    return (*loop).run(detail::to_task(std::move(awaitable)));
}

} // namespace penstock
