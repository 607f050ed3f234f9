#pragma once

#include <coroutine>
#include <system_error>

#include <penstock/result.hpp>
#include <penstock/suspension.hpp>

namespace penstock {

class [[nodiscard]] YieldOperation final : public Suspension {
public:
    YieldOperation() noexcept : Suspension(nullptr) {}

    [[nodiscard]] bool await_ready() const noexcept {
        return context().cancelled() && context().loop().spend();
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

/// Lets everything else that is ready run, and tells whether the task has been cancelled
/// (`operation_canceled`): for long computations.
[[nodiscard]] inline YieldOperation yield() noexcept {
    return {};
}

} // namespace penstock
