#pragma once

#include <sys/types.h>

namespace penstock::io {

/// Tells a process from the child that it forks: a page that the kernel hands to a child filled with
/// zeros (MADV_WIPEONFORK, madvise(2)).
///
/// Why not pthread_atfork: it does not run for a bare clone(2), and needs something global to write
/// to. Why not getpid: a system call at each question. It is the way out where the kernel has no
/// such advice (gVisor).
class ForkMark {
public:
    /// Throws `std::system_error` when there is no memory for a page.
    ForkMark();
    ~ForkMark();
    ForkMark(const ForkMark&) = delete;
    ForkMark& operator=(const ForkMark&) = delete;

    /// True in a process that was forked from the one that made this mark.
    [[nodiscard]] bool in_child() const noexcept;

    /// Makes it this process's mark: for a child that has a copy of its own by now.
    void take_over() noexcept;

private:
    volatile unsigned char* page_;
    pid_t process_ = 0; ///< 0: the page tells
};

} // namespace penstock::io
