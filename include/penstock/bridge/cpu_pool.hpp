#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <penstock/bridge/to_thread.hpp>
#include <penstock/detail/task/worker_pool.hpp>

namespace penstock {

/// Threads of one's own for functions that compute for long, so that they compete neither with the
/// loop nor with the shared threads of `to_thread`.
///
///     CpuPool thumbnails("thumbnails", 4);
///     Result<Image> small = co_await thumbnails.run([&] { return scale(image); });
///
/// Threads start on demand and stay until the pool is destroyed. They carry the pool's name (ps -L,
/// gdb), and block all signals.
///
/// Thread safety: any thread may call `run`. The pool must outlive the tasks that use it. A forked
/// child cannot use its parent's pool.
class CpuPool {
public:
    /// `threads` is at least 1. Of the name, threads show the first 15 bytes
    /// (pthread_setname_np(3)). Throws `std::invalid_argument`.
    CpuPool(std::string name, std::size_t threads);
    /// With as many threads as processors that this process may use (sched_getaffinity(2)).
    explicit CpuPool(std::string name);
    CpuPool(const CpuPool&) = delete;
    CpuPool& operator=(const CpuPool&) = delete;
    ~CpuPool() = default;

    /// Calls a function on one of the threads. Results, errors and cancellation are those of
    /// `to_thread`. In a forked child it throws `std::logic_error`.
    template <typename Function>
        requires std::is_invocable_v<std::decay_t<Function>&>
    [[nodiscard]] ToThreadOperation<std::decay_t<Function>> run(Function&& function) {
        return ToThreadOperation<std::decay_t<Function>>(
            std::decay_t<Function>(std::forward<Function>(function)), workers_.get());
    }

    [[nodiscard]] std::size_t threads() const noexcept { return workers_->limit(); }

private:
    std::unique_ptr<detail::WorkerPool, detail::WorkerPool::Deleter> workers_;
};

} // namespace penstock
