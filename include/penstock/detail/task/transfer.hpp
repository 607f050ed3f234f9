#pragma once

#include <coroutine>

namespace penstock::detail {

// Symmetric transfer: one coroutine resumes where another one suspends, without growing the stack.
//
// Clang guarantees the tail call at every optimisation level. GCC does so only when it optimises.
// There the next coroutine is stored in a variable, and the loop that resumed the last one resumes
// it.
#if defined(__clang__) && !defined(PENSTOCK_TRANSFER_BY_LOOP)

/// The return value of `await_suspend`.
inline std::coroutine_handle<> transfer(std::coroutine_handle<> next) noexcept {
    return next;
}

/// Resumes a coroutine and all that it transfers to, until one suspends.
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
