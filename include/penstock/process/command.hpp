#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/process/child.hpp>
#include <penstock/process/terminal.hpp>
#include <penstock/result.hpp>

namespace penstock::process {

/// Where one of a child's three standard streams goes.
class Stream {
public:
    /// The parent's own. The default.
    [[nodiscard]] static Stream inherit() noexcept { return Stream(Kind::inherit, -1); }

    /// /dev/null.
    [[nodiscard]] static Stream null() noexcept { return Stream(Kind::null, -1); }

    /// A new pipe, whose other end is in the `Child`.
    [[nodiscard]] static Stream pipe() noexcept { return Stream(Kind::pipe, -1); }

    /// A copy of an open descriptor, which must stay open until `spawn` has returned. Most programs
    /// expect it to be blocking: for a pipe between two children use `make_blocking_pipe`.
    [[nodiscard]] static Stream descriptor(int fd) noexcept { return Stream(Kind::descriptor, fd); }

    /// For standard error: wherever standard output goes.
    [[nodiscard]] static Stream as_output() noexcept { return Stream(Kind::as_output, -1); }

private:
    friend class Command;
    enum class Kind : unsigned char { inherit, null, pipe, descriptor, as_output };

    Stream(Kind kind, int fd) noexcept : kind_(kind), fd_(fd) {}

    Kind kind_;
    int fd_;
};

/// A process to be started; may be started several times.
///
///     Result<Child> child = Command("sort").argument("-n").input(Stream::pipe()).spawn();
///
/// A plain value: not bound to a loop. No shell is involved: arguments arrive as they are. The child starts with no signal blocked and
/// SIGPIPE as the system has it, whatever the parent has changed.
class Command {
public:
    /// A program's path, or its name, which is looked for in the parent's PATH.
    explicit Command(std::string program);

    Command& argument(std::string value);
    Command& arguments(std::initializer_list<std::string_view> values);

    /// Sets a variable of the child's environment, which begins as a copy of the parent's at `spawn`.
    Command& environment(std::string name, std::string value);
    Command& without_environment(std::string name);
    /// Begins with an empty environment instead.
    Command& clear_environment() noexcept;

    Command& directory(std::string path);

    Command& input(Stream stream) noexcept;
    Command& output(Stream stream) noexcept;
    Command& error(Stream stream) noexcept;

    /// All three are a new pseudo-terminal, which is the child's controlling terminal, in a session of
    /// its own. Replaces what `input`, `output` and `error` said.
    Command& terminal(TerminalSize size = {}) noexcept;

    /// A session of its own: the terminal's Ctrl+C does not reach it (setsid(2)).
    Command& new_session() noexcept;

    /// Kills the process when its `Child` ends first.
    Command& kill_on_close() noexcept;

    /// Starts the process (posix_spawn(3), which does not copy the parent's memory). It returns when the
    /// program has been found and begun. Errors: `no_such_file_or_directory`, `permission_denied`,
    /// `too_many_files_open`, ...; `invalid_argument` for a zero byte in a string, or an `=` in a
    /// variable's name. On an error nothing has been started.
    [[nodiscard]] Result<Child> spawn() const;

private:
    std::string program_;
    std::vector<std::string> arguments_;
    std::map<std::string, std::optional<std::string>, std::less<>> changes_;
    std::string directory_;
    Stream input_ = Stream::inherit();
    Stream output_ = Stream::inherit();
    Stream error_ = Stream::inherit();
    std::optional<TerminalSize> terminal_;
    bool clear_environment_ = false;
    bool new_session_ = false;
    bool kill_on_close_ = false;
};

} // namespace penstock::process
