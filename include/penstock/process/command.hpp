#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/process/child.hpp>
#include <penstock/process/output.hpp>
#include <penstock/process/terminal.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/task.hpp>

namespace penstock::process {

/// The target of one of a child's three standard streams.
class Stdio {
public:
    /// The parent's own stream. The default.
    [[nodiscard]] static Stdio inherit() noexcept { return Stdio(Kind::inherit, -1); }

    /// /dev/null.
    [[nodiscard]] static Stdio null() noexcept { return Stdio(Kind::null, -1); }

    /// A new pipe. The `Child` has its other end.
    [[nodiscard]] static Stdio pipe() noexcept { return Stdio(Kind::pipe, -1); }

    /// A copy of an open descriptor, which must stay open until `spawn` has returned. Most programs
    /// expect a blocking one. For a pipe between two children use `make_blocking_pipe`.
    [[nodiscard]] static Stdio descriptor(int fd) noexcept { return Stdio(Kind::descriptor, fd); }

    /// Only for standard error: the same target as standard output.
    [[nodiscard]] static Stdio as_output() noexcept { return Stdio(Kind::as_output, -1); }

private:
    friend class StandardStreams;
    enum class Kind : unsigned char { inherit, null, pipe, descriptor, as_output };

    Stdio(Kind kind, int fd) noexcept : kind_(kind), fd_(fd) {}

    Kind kind_;
    int fd_;
};

/// Describes a process to start. Can be started several times.
///
///     Result<Child> child = Command("sort").argument("-n").input(Stdio::pipe()).spawn();
///
/// No shell is involved: arguments are passed unchanged. The child starts with no signal blocked
/// and with the default disposition of SIGPIPE.
///
/// A plain value, not bound to a loop.
class Command {
public:
    /// A path, or a name to look up in the parent's PATH.
    explicit Command(std::string program);

    Command& argument(std::string value);
    Command& arguments(std::initializer_list<std::string_view> values);

    /// Sets an environment variable of the child. Its environment starts as a copy of the parent's
    /// at the time of `spawn`.
    Command& environment(std::string name, std::string value);
    Command& remove_environment(std::string name);
    /// Makes the child's environment start empty instead. Drops earlier changes too.
    Command& clear_environment() noexcept;

    /// The working directory of the child. By default the parent's.
    Command& directory(std::string path);

    /// The child's standard streams. By default the parent's.
    Command& input(Stdio stream) noexcept;
    Command& output(Stdio stream) noexcept;
    Command& error(Stdio stream) noexcept;

    /// Connects all three standard streams to a new pseudo-terminal, which becomes the controlling
    /// terminal of the child in a new session. Overrides `input`, `output` and `error`.
    Command& terminal(TerminalSize size = {}) noexcept;

    /// Starts the child in a new session, so the terminal's Ctrl+C does not reach it (setsid(2)).
    Command& new_session() noexcept;

    /// Kills the process when its `Child` is destroyed first. The destructor sends SIGKILL and does
    /// not wait for the end. To wait, call `Child::kill` and `Child::wait`.
    Command& kill_on_close() noexcept;

    /// Starts the process (posix_spawn(3), which does not copy the parent's memory). Returns when
    /// the program was found and has started.
    ///
    /// Errors: `no_such_file_or_directory`, `permission_denied`, `too_many_files_open` and others.
    /// `invalid_argument` for an empty program, a zero byte in a string, or an `=` in a variable's
    /// name. After an error no process is running.
    [[nodiscard]] Result<Child> spawn() const;

    /// Starts the process, passes `input` to its standard input, and waits for its end. Collects
    /// its standard output and standard error, each of at most `limit` bytes.
    ///
    ///     const Output sorted = co_await unwrap(Command("sort").output("b\na\n"));
    ///
    /// The task has a copy of this object, which may be changed or destroyed after the call.
    ///
    /// Overrides `input`, `output`, `error` and `terminal`. A process that does not read all of its
    /// input is not an error. An exit code other than 0 is not an error either: test `status`.
    ///
    /// Errors: those of `spawn` and of the pipes, and `message_size` for an output of more than
    /// `limit` bytes. After an error or a cancellation the process has been killed and reaped.
    [[nodiscard]] Task<Result<Output>> output(std::string input,
                                              std::size_t limit = default_read_all_limit) const {
        return collect(*this, std::move(input), limit);
    }
    [[nodiscard]] Task<Result<Output>> output() const { return output(std::string()); }

private:
    static Task<Result<Output>> collect(Command command, std::string input, std::size_t limit);

    /// The variables as "NAME=VALUE".
    [[nodiscard]] std::vector<std::string> child_environment() const;

    std::string program_;
    std::vector<std::string> arguments_;
    std::map<std::string, std::optional<std::string>, std::less<>> changes_;
    std::string directory_;
    Stdio input_ = Stdio::inherit();
    Stdio output_ = Stdio::inherit();
    Stdio error_ = Stdio::inherit();
    std::optional<TerminalSize> terminal_;
    bool clear_environment_ = false;
    bool new_session_ = false;
    bool kill_on_close_ = false;
};

} // namespace penstock::process
