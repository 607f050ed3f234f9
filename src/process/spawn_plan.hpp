#pragma once

#include <csignal>
#include <string>
#include <system_error>

#include <spawn.h>
#include <sys/types.h>

#include <penstock/result.hpp>

namespace penstock::process {

/// The file actions and attributes of posix_spawn(3).
///
/// The first error of any function is kept, and `run` returns it instead of starting a program, so
/// the calls between need no checks. Actions happen in the child, in the order in which they were
/// added; the descriptors that they name must stay open until `run` has returned.
///
/// `run` is called once. It returns when the program runs, or the error of the child's step that
/// has failed (posix_spawn of glibc waits for exec). It blocks for that long.
class SpawnPlan {
public:
    SpawnPlan() noexcept {
        note(::posix_spawn_file_actions_init(&actions_));
        note(::posix_spawnattr_init(&attributes_));
    }
    ~SpawnPlan() {
        ::posix_spawn_file_actions_destroy(&actions_);
        ::posix_spawnattr_destroy(&attributes_);
    }
    SpawnPlan(const SpawnPlan&) = delete;
    SpawnPlan& operator=(const SpawnPlan&) = delete;

    void copy(int from, int to) noexcept {
        note(::posix_spawn_file_actions_adddup2(&actions_, from, to));
    }
    void open(int fd, const char* path, int flags) noexcept {
        note(::posix_spawn_file_actions_addopen(&actions_, fd, path, flags, 0));
    }
    void change_directory(const char* path) noexcept {
        note(::posix_spawn_file_actions_addchdir_np(&actions_, path));
    }

    void reset_signals(bool new_session) noexcept {
        sigset_t none;
        sigemptyset(&none);
        sigset_t broken_pipe;
        sigemptyset(&broken_pipe);
        sigaddset(&broken_pipe, SIGPIPE);
        note(::posix_spawnattr_setsigmask(&attributes_, &none));
        note(::posix_spawnattr_setsigdefault(&attributes_, &broken_pipe));
        int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        if (new_session) {
            flags |= POSIX_SPAWN_SETSID;
        }
        note(::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags)));
    }

    Result<pid_t> run(const std::string& program, char* const* arguments,
                      char* const* environment) noexcept {
        pid_t pid = 0;
        if (error_ == 0) {
            error_ = ::posix_spawnp(&pid, program.c_str(), &actions_, &attributes_, arguments,
                                    environment);
        }
        if (error_ != 0) {
            return failure(std::error_code(error_, std::system_category()));
        }
        return pid;
    }

private:
    void note(int error) noexcept { error_ = error_ != 0 ? error_ : error; }

    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
    int error_ = 0;
};

} // namespace penstock::process
