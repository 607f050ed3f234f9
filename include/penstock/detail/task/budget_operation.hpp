#pragma once

#include <coroutine>

#include <penstock/task/operation_base.hpp>

namespace penstock::detail {

/// Consumes one unit of the loop's budget for a step that needs no operation, such as a line that
/// is already buffered. Suspends for one iteration if the budget is used up. Returns whether the
/// task may go on: false if it is cancelled. A caller may ignore that.
class [[nodiscard]] BudgetOperation final : public OperationBase {
public:
    BudgetOperation() noexcept : OperationBase(nullptr) {}

    [[nodiscard]] bool await_ready() const noexcept { return context().loop().consume_budget(); }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) noexcept {
        suspend(task);
        resume_soon();
    }

    bool await_resume() const noexcept { return !context().cancelled(); }
};

} // namespace penstock::detail
