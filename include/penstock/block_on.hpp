#pragma once

#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/run.hpp>

namespace penstock {

namespace detail {

/// The loop that `block_on` uses on this thread. Created by the first call, kept until the thread
/// ends.
[[nodiscard]] EventLoop& blocking_loop();

} // namespace detail

/// Blocks a plain thread until a task or operation has ended, and returns its result. For the
/// threads of a program that run no loop: `while (auto job = block_on(jobs.receive())) ...`.
///
/// The thread keeps one loop for all such calls, so a call costs no descriptors after the first.
/// Throws `std::logic_error` on a thread that runs a loop (use `co_await`), and `std::system_error`
/// if the kernel has no descriptors left.
template <Awaitable T> Awaited<T> block_on(T awaitable) {
    return detail::blocking_loop().run(detail::to_task(std::move(awaitable)));
}

} // namespace penstock
