#pragma once

#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::testing {

/// Runs `body` in a forked child, which tells by its return value whether all was well there; 77 stands
/// for "could not be tried". It leaves by _exit: nothing of the parent's is cleaned up.
template <typename Body> int in_child_process(Body body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(30);
        ::_exit(body());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// ThreadSanitizer ends a child of a program with threads when it starts one.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PENSTOCK_CHILD_HAS_NO_THREADS
#endif
#endif
#ifdef PENSTOCK_CHILD_HAS_NO_THREADS
inline constexpr bool child_may_start_threads = false;
#else
inline constexpr bool child_may_start_threads = true;
#endif

inline constexpr int could_not_be_tried = 77;

} // namespace penstock::testing
