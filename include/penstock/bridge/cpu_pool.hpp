#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <penstock/bridge/to_thread.hpp>
#include <penstock/detail/task/worker_pool.hpp>

namespace penstock {

/// A thread pool for functions that compute for long. They block neither the loop nor the
/// process-wide threads of `to_thread`.
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
    /// A pool of at most `threads` threads. They carry the first 15 bytes of the name
    /// (pthread_setname_np(3)). Throws `std::invalid_argument` for 0 threads.
    CpuPool(std::string name, std::size_t threads);
    /// The same with one thread for each processor that this process may use
    /// (sched_getaffinity(2)).
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
