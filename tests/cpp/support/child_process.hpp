#pragma once

#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::testing {

/// Runs `body` in a forked child. Its return value is the exit code: 0 for success, 77 for "could
/// not be tried". The child leaves by _exit, so nothing of the parent's is cleaned up.
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

/// ThreadSanitizer ends the child of a multi-threaded program when the child starts a thread.
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
