#pragma once

#include <array>
#include <cstddef>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace penstock::testing {

/// Makes a system call fail with `error` from now on in this thread and those it starts, as a
/// container's filter does. False where filters are refused. For a child process: it cannot be
/// undone.
inline bool deny_system_call(long number, int error) {
    std::array<sock_filter, 4> code{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program{.len = code.size(), .filter = code.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct SystemCall {
    const char* name;
    long number;
};

/// What sandboxes and old container runtimes deny, and programs can do without.
inline constexpr std::array replaceable_calls{
    SystemCall{"statx", SYS_statx},
    SystemCall{"preadv2", SYS_preadv2},
    SystemCall{"pwritev2", SYS_pwritev2},
    SystemCall{"openat2", SYS_openat2},
    SystemCall{"renameat2", SYS_renameat2},
    SystemCall{"copy_file_range", SYS_copy_file_range},
    SystemCall{"getrandom", SYS_getrandom},
    SystemCall{"fallocate", SYS_fallocate},
    SystemCall{"splice", SYS_splice},
    SystemCall{"io_uring_setup", SYS_io_uring_setup},
    SystemCall{"io_uring_enter", SYS_io_uring_enter},
    SystemCall{"io_uring_register", SYS_io_uring_register},
};

} // namespace penstock::testing
