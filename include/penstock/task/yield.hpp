#pragma once

#include <coroutine>
#include <system_error>

#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock {

/// The operation of `yield`.
class [[nodiscard]] YieldOperation final : public OperationBase {
public:
    YieldOperation() noexcept : OperationBase(nullptr) {}

    [[nodiscard]] bool await_ready() const noexcept {
        return context().cancelled() && context().loop().consume_budget();
    }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) noexcept {
        suspend(task);
        resume_soon();
    }

    [[nodiscard]] Result<> await_resume() const noexcept {
        if (context().cancelled()) {
            return failure(std::errc::operation_canceled);
        }
        return {};
    }
};

/// Suspends the task for one iteration of the loop, so that everything else that is ready runs.
/// Returns `operation_canceled` if the task is cancelled. Await it in long computations.
[[nodiscard]] inline YieldOperation yield() noexcept {
    return {};
}

} // namespace penstock
