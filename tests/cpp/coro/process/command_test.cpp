// Child processes: streams, environment, exit codes, signals, terminals.

#include <penstock/process/command.hpp>
#include <penstock/stream/buf_reader.hpp>
#include <penstock/stream/pipe.hpp>
#include <penstock/task/run.hpp>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::BufReader;
using penstock::OwnedDescriptor;
using penstock::Reader;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::process::Child;
using penstock::process::Command;
using penstock::process::ExitStatus;
using penstock::process::Stdio;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;

template <Reader R> Task<std::string> all_of(R& reader) {
    std::string text;
    std::array<char, 256> buffer{};
    for (;;) {
        const Result<std::size_t> count = co_await reader.read(buffer);
        EXPECT_TRUE(count);
        if (!count || *count == 0) {
            co_return text;
        }
        text.append(buffer.data(), *count);
    }
}

/// Waits for the end of a child without reaping it. 0 if no signal has ended it.
int ending_signal(pid_t pid) {
    siginfo_t information{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &information, WEXITED | WNOWAIT), 0);
    return information.si_code == CLD_KILLED ? information.si_status : 0;
}

Command shell(std::string script) {
    return std::move(Command("sh").argument("-c").argument(std::move(script)));
}

/// The output of a script that is expected to succeed.
Task<std::string> output_of(Command command) {
    Result<Child> child = command.output(Stdio::pipe()).spawn();
    EXPECT_TRUE(child) << child.error().message();
    if (!child) {
        co_return "";
    }
    std::string text = co_await all_of(child->output);
    EXPECT_EQ(co_await child->wait(), ExitStatus::exited(0));
    co_return text;
}

TEST(Command, AFilterReadsAndWrites) {
    const auto body = []() -> Task<void> {
        Child child = Command("tr")
                          .arguments({"a-z", "A-Z"})
                          .input(Stdio::pipe())
                          .output(Stdio::pipe())
                          .spawn()
                          .value();
        EXPECT_TRUE(co_await child.input.write_all("some words"));
        child.input.close();
        EXPECT_EQ(co_await all_of(child.output), "SOME WORDS");
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0));
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0)); // and again
    };
    run(body());
}

TEST(Command, ExitCodesAndSignalsAreReported) {
    const auto body = []() -> Task<void> {
        Child failing = shell("exit 7").spawn().value();
        const ExitStatus status = (co_await failing.wait()).value();
        EXPECT_EQ(status.code(), 7);
        EXPECT_FALSE(status.success());
        EXPECT_EQ(status.signal(), std::nullopt);

        Child killed = shell("kill -TERM $$").spawn().value();
        const ExitStatus end = (co_await killed.wait()).value();
        EXPECT_EQ(end.signal(), SIGTERM);
        EXPECT_EQ(end.code(), std::nullopt);
    };
    run(body());
}

TEST(Command, AProcessIsSignalledUntilItHasEnded) {
    const auto body = []() -> Task<void> {
        Child child = Command("sleep").argument("60").spawn().value();
        EXPECT_EQ(child.try_wait().value(), std::nullopt);
        EXPECT_TRUE(child.signal(SIGINT));
        EXPECT_EQ((co_await child.wait())->signal(), SIGINT);
        EXPECT_EQ(child.try_wait().value()->signal(), SIGINT);
        EXPECT_EQ(child.kill().error(), std::errc::no_such_process);
    };
    run(body());
}

TEST(Command, StandardErrorMayGoWithTheOutput) {
    const auto body = []() -> Task<void> {
        EXPECT_EQ(co_await output_of(shell("echo out; echo err >&2").error(Stdio::as_output())),
                  "out\nerr\n");
        Child child = shell("echo out; echo err >&2")
                          .output(Stdio::null())
                          .error(Stdio::pipe())
                          .spawn()
                          .value();
        EXPECT_EQ(co_await all_of(child.error), "err\n");
    };
    run(body());
    EXPECT_EQ(Command("true").output(Stdio::as_output()).spawn().error(),
              std::errc::invalid_argument);
}

TEST(Command, StandardStreamsMayBeSwapped) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("swapped");
        // The inner command swaps its two streams: both copies must be of the originals.
        const OwnedDescriptor out(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        const OwnedDescriptor saved(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10));
        EXPECT_EQ(::dup2(out.get(), STDOUT_FILENO), STDOUT_FILENO);
        Result<Child> child = shell("echo to-error; echo to-output >&2")
                                  .output(Stdio::descriptor(STDERR_FILENO))
                                  .error(Stdio::descriptor(STDOUT_FILENO))
                                  .spawn();
        ::dup2(saved.get(), STDOUT_FILENO);
        EXPECT_TRUE(child);
        EXPECT_EQ(co_await child->wait(), ExitStatus::exited(0));
        EXPECT_EQ(folder.content("swapped"), "to-output\n");
    };
    run(body());
}

TEST(Command, TheEnvironmentIsTheParentsWithChanges) {
    const auto body = []() -> Task<void> {
        ::setenv("PENSTOCK_TEST_KEPT", "kept", 1);
        ::setenv("PENSTOCK_TEST_REMOVED", "there", 1);
        Command command = shell("echo $PENSTOCK_TEST_KEPT/$PENSTOCK_TEST_REMOVED/$ADDED");
        command.remove_environment("PENSTOCK_TEST_REMOVED").environment("ADDED", "a=b");
        EXPECT_EQ(co_await output_of(command), "kept//a=b\n");
        EXPECT_EQ(co_await output_of(
                      Command("/usr/bin/env").clear_environment().environment("ONLY", "this")),
                  "ONLY=this\n");
    };
    run(body());
}

TEST(Command, RunsInAnotherFolder) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        (void)folder.file("marker");
        EXPECT_EQ(co_await output_of(shell("ls").directory(folder.path("."))), "marker\n");
    };
    run(body());
}

TEST(Command, AProgramThatCannotStartIsAnError) {
    EXPECT_EQ(Command("/no/such/program").spawn().error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(Command("penstock-no-such-program").spawn().error(),
              std::errc::no_such_file_or_directory);
    EXPECT_EQ(Command("/etc/passwd").spawn().error(), std::errc::permission_denied);
    EXPECT_EQ(Command("true").directory("/no/such/folder").spawn().error(),
              std::errc::no_such_file_or_directory);
    EXPECT_EQ(Command("").spawn().error(), std::errc::invalid_argument);
    EXPECT_EQ(Command("echo").argument(std::string("a\0b", 3)).spawn().error(),
              std::errc::invalid_argument);
    EXPECT_EQ(Command("true").environment("A=B", "c").spawn().error(), std::errc::invalid_argument);
    EXPECT_EQ(Command("true").output(Stdio::descriptor(-1)).spawn().error(),
              std::errc::bad_file_descriptor);
}

TEST(Command, ATerminalIsTheChildsControllingTerminal) {
    const auto body = []() -> Task<void> {
        Child child = shell("tty; stty size; read answer; echo got $answer")
                          .terminal({.rows = 40, .columns = 120})
                          .spawn()
                          .value();
        BufReader reader(child.terminal);
        EXPECT_TRUE((co_await reader.line())->value().starts_with("/dev/pts/"));
        EXPECT_EQ((co_await reader.line())->value(), "40 120");
        EXPECT_TRUE(co_await child.terminal.write_all("typed\n"));
        EXPECT_EQ((co_await reader.line())->value(), "typed"); // its echo
        EXPECT_EQ((co_await reader.line())->value(), "got typed");
        EXPECT_EQ((co_await reader.line()).value(), std::nullopt);
        EXPECT_EQ(co_await child.wait(), ExitStatus::exited(0));
    };
    run(body());
}

TEST(Command, ATerminalCanBeResizedAndInterrupted) {
    const auto body = []() -> Task<void> {
        Child child = shell("trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done")
                          .terminal()
                          .spawn()
                          .value();
        BufReader reader(child.terminal);
        EXPECT_EQ((co_await reader.line())->value(), "ready");
        EXPECT_TRUE(child.terminal.resize({.rows = 10, .columns = 33}));
        EXPECT_EQ(child.terminal.size()->columns, 33);
        EXPECT_EQ((co_await reader.line())->value(), "10 33");
        EXPECT_TRUE(co_await child.terminal.write_all("\x03")); // Ctrl+C
        EXPECT_EQ((co_await child.wait())->signal(), SIGINT);
    };
    run(body());
}

TEST(Command, KillOnCloseEndsTheProcess) {
    pid_t pid = 0;
    {
        const Child child = Command("sleep").argument("60").kill_on_close().spawn().value();
        pid = child.pid();
    }
    EXPECT_EQ(ending_signal(pid), SIGKILL);
    const Child next = Command("true").spawn().value(); // reaps it
    EXPECT_EQ(::kill(pid, 0), -1);
    EXPECT_EQ(errno, ESRCH);
}

// The kernel may take long to end a process. Here a tracer does: until it has seen the end, the
// parent cannot.
TEST(Command, DestroyingAChildDoesNotWaitForItsEnd) {
    const Watchdog watchdog;
    Child child = Command("sleep").argument("60").kill_on_close().spawn().value();
    const pid_t pid = child.pid();
    const penstock::BlockingPipe told = penstock::make_blocking_pipe().value();
    penstock::BlockingPipe held = penstock::make_blocking_pipe().value();
    const pid_t tracer = ::fork();
    if (tracer == 0) {
        held.writing.reset();
        char byte = ::ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 ? 'y' : 'n';
        (void)!::write(told.writing.get(), &byte, 1);
        (void)!::read(held.reading.get(), &byte, 1); // until the parent closes its end
        ::_exit(0);
    }
    char traced = 0;
    EXPECT_EQ(::read(told.reading.get(), &traced, 1), 1);
    {
        const Child ended = std::move(child);
    }
    held.writing.reset();
    EXPECT_EQ(::waitpid(tracer, nullptr, 0), tracer);
    EXPECT_EQ(ending_signal(pid), SIGKILL);
    if (traced != 'y') {
        GTEST_SKIP() << "this user must not trace";
    }
}

TEST(Command, AProcessThatOutlivesItsObjectIsReapedLater) {
    pid_t pid = 0;
    penstock::PipeWriter input;
    {
        Child child = Command("cat").input(Stdio::pipe()).spawn().value();
        pid = child.pid();
        input = std::move(child.input);
    }
    EXPECT_EQ(::kill(pid, 0), 0);
    input.close(); // it ends
    siginfo_t information{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &information, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(::kill(pid, 0), 0); // a zombie
    const Child next = Command("true").spawn().value();
    EXPECT_EQ(::kill(pid, 0), -1);
    EXPECT_EQ(errno, ESRCH);
}

TEST(Command, TheChildHasDefaultSignals) {
    const auto body = []() -> Task<void> {
        sigset_t blocked;
        sigset_t before;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &blocked, &before);
        std::signal(SIGPIPE, SIG_IGN);
        Child child = Command("sleep").argument("60").spawn().value();
        Child piping = shell("kill -PIPE $$; echo survived").spawn().value();
        std::signal(SIGPIPE, SIG_DFL);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        EXPECT_TRUE(child.signal(SIGTERM));
        EXPECT_EQ((co_await child.wait())->signal(), SIGTERM);
        EXPECT_EQ((co_await piping.wait())->signal(), SIGPIPE);
    };
    run(body());
}

TEST(Command, AChildThatSomebodyElseWaitedForIsAnError) {
    const auto body = []() -> Task<void> {
        Child child = Command("true").spawn().value();
        EXPECT_EQ(::waitpid(child.pid(), nullptr, 0), child.pid());
        EXPECT_EQ((co_await child.wait()).error(), std::errc::no_child_process);
    };
    run(body());
}

TEST(Command, AssigningAChildKillsTheOldOne) {
    Child first = Command("sleep").argument("60").kill_on_close().spawn().value();
    Child second = Command("sleep").argument("60").kill_on_close().spawn().value();
    const pid_t ended = first.pid();
    const pid_t kept = second.pid();
    first = std::move(second);
    // The library may have reaped it already.
    siginfo_t information{};
    if (::waitid(P_PID, static_cast<id_t>(ended), &information, WEXITED | WNOWAIT) == 0) {
        EXPECT_EQ(information.si_status, SIGKILL);
    } else {
        EXPECT_EQ(errno, ECHILD);
    }
    EXPECT_EQ(first.pid(), kept);
    Child& same = first;
    first = std::move(same);
    EXPECT_EQ(::kill(kept, 0), 0);
}

} // namespace
