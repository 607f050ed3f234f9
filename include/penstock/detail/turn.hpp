#pragma once

#include <coroutine>

#include <penstock/suspension.hpp>

namespace penstock::detail {

/// Counts what needs no operation, a line that is in a buffer already, say, as one: when the task has
/// done as many in a row as it may, others run first. Cancellation passes over it.
class [[nodiscard]] TurnOperation final : public Suspension {
public:
    TurnOperation() noexcept : Suspension(nullptr) {}

    [[nodiscard]] bool await_ready() const noexcept { return context().loop().spend(); }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) noexcept {
        suspend(task);
        resume_soon();
    }

    void await_resume() const noexcept {}
};

} // namespace penstock::detail
