#pragma once

#include <coroutine>

namespace penstock::detail {

// One coroutine goes on where another one stops, without growing the stack.
//
// Clang makes that a tail call at every level of optimisation. GCC does so only when it optimises,
// so there the next coroutine is left in a variable, for the loop that resumed the last one.
#if defined(__clang__) && !defined(PENSTOCK_TRANSFER_BY_LOOP)

/// For `await_suspend` to return.
inline std::coroutine_handle<> transfer(std::coroutine_handle<> next) noexcept {
    return next;
}

/// Runs a coroutine, and what it transfers to, until all of them wait.
inline void resume(std::coroutine_handle<> coroutine) {
    coroutine.resume();
}

#else

inline thread_local std::coroutine_handle<> transferred;

inline std::coroutine_handle<> transfer(std::coroutine_handle<> next) noexcept {
    transferred = next;
    return std::noop_coroutine();
}

inline void resume(std::coroutine_handle<> coroutine) {
    transferred = nullptr;
    coroutine.resume();
    while (transferred) {
        coroutine = transferred;
        transferred = nullptr;
        coroutine.resume();
    }
}

#endif

} // namespace penstock::detail
