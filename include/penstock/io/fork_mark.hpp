#pragma once

#include <sys/types.h>

namespace penstock::io {

/// Detects that the process was forked: a page that the kernel fills with zeros in a child
/// (MADV_WIPEONFORK, madvise(2)).
///
/// Why not pthread_atfork: it does not run for a bare clone(2), and its handler needs a global
/// variable. Why not getpid: a system call for each check. It is the fallback on kernels without
/// that advice (gVisor).
class ForkMark {
public:
    /// Throws `std::system_error` when there is no memory for a page.
    ForkMark();
    ~ForkMark();
    ForkMark(const ForkMark&) = delete;
    ForkMark& operator=(const ForkMark&) = delete;

    /// Whether this process was forked from the one that made this mark.
    [[nodiscard]] bool in_child() const noexcept {
        return process_ == 0 ? *page_ == 0 : process_has_changed();
    }

    /// Makes this process the owner of the mark. For a child that has replaced the resources that
    /// it shared with its parent.
    void take_over() noexcept;

private:
    [[nodiscard]] bool process_has_changed() const noexcept;

    volatile unsigned char* page_;
    pid_t process_ = 0; ///< 0: the page is used
};

} // namespace penstock::io
