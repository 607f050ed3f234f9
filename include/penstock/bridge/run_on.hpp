#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/result.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/run.hpp>

namespace penstock {

namespace detail {

/// Several loops, each on a thread. The first failure cancels the tasks of all.
class LoopGroup {
public:
    /// Called on the thread of each loop. Returns the error of its task.
    using Member = std::function<std::error_code(std::size_t index, EventLoop&, Canceller&)>;

    /// Throws `std::invalid_argument` for no loops, and `std::system_error` if the kernel has no
    /// descriptors or threads left. Then no task has run.
    explicit LoopGroup(std::size_t loops);
    LoopGroup(const LoopGroup&) = delete;
    LoopGroup& operator=(const LoopGroup&) = delete;
    ~LoopGroup();

    /// Runs the members and waits for the end of all. Returns the first error, or rethrows the
    /// first exception.
    [[nodiscard]] Result<> run(const Member& member);

private:
    struct Loop;

    void run_one(std::size_t index, const Member& member) noexcept;
    void cancel_all() noexcept;

    std::vector<std::unique_ptr<Loop>> loops_;
    std::mutex lock_;
    std::error_code error_;
    std::exception_ptr exception_;
};

} // namespace detail

/// Runs a server on several loops, each on a thread of its own, and waits for the end of all. The
/// last one uses this thread. `server(index)` is called on each thread, with an index from 0, and
/// returns the `Task<Result<>>` of that loop.
///
///     run_on(4, [&](std::size_t) -> Task<Result<>> {
///         auto listener = co_await unwrap(TcpListener::listen(endpoint, {.reuse_port = true}));
///         co_return co_await serve(listener);
///     });
///
/// With `reuse_port`, each loop has its own queue of connections, and the kernel distributes them
/// (SO_REUSEPORT, socket(7)). A connection stays on its loop.
///
/// Errors: the first error or exception cancels the tasks of all loops, and is returned or rethrown
/// when all have ended. A task that ends without an error leaves the others running. To end all of
/// them together, let one task own the `Signal` and all wait for one `sync::Event`.
///
/// Throws `std::invalid_argument` for 0 loops, `std::logic_error` on a thread that runs a loop, and
/// `std::system_error` if the kernel has no descriptors or threads left.
template <typename Server>
    requires std::is_invocable_r_v<Task<Result<>>, Server&, std::size_t>
Result<> run_on(std::size_t loops, Server server) {
    detail::LoopGroup group(loops);
    return group.run([&server](std::size_t index, EventLoop& loop, Canceller& canceller) {
        const Result<> ended = loop.run(cancellable(canceller, std::invoke(server, index)));
        // Cancelled because another loop has failed.
        const bool stopped =
            !ended && canceller.cancelled() && ended.error() == std::errc::operation_canceled;
        return ended || stopped ? std::error_code() : ended.error();
    });
}

} // namespace penstock
