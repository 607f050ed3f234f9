#include <penstock/process/command.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/spawn_plan.hpp"
#include "process/standard_streams.hpp"

extern char**
    environ; // NOLINT(readability-redundant-declaration): the C library's headers may lack it

namespace penstock::process {

using penstock::detail::Pollable;

namespace {

bool has_zero(std::string_view text) noexcept {
    return text.find('\0') != std::string_view::npos;
}

bool is_valid_variable(
    const std::pair<const std::string, std::optional<std::string>>& change) noexcept {
    const auto& [name, value] = change;
    return !name.empty() && !has_zero(name) && !name.contains('=') && !(value && has_zero(*value));
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
    std::vector<char*> pointers;
    pointers.reserve(strings.size() + 1);
    for (std::string& string : strings) {
        pointers.push_back(string.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

/// Without a pidfd the child cannot be awaited, so kill and reap it.
void kill_and_reap(pid_t pid) noexcept {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

/// Opens a pidfd for a new child. After an error the child has ended.
Result<> watch(pid_t pid, detail::ChildState& state) {
    // The child has not been reaped, so its number is still valid.
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (pidfd < 0) {
        const auto refused = last_failure();
        kill_and_reap(pid);
        return refused;
    }
    try {
        state.pidfd = Pollable::adopt(pidfd);
    } catch (const std::bad_alloc&) {
        kill_and_reap(pid);
        throw;
    }
    state.pid = pid;
    state.parent = ::getpid();
    return {};
}

} // namespace

Command::Command(std::string program) : program_(std::move(program)) {}

Command& Command::argument(std::string value) {
    arguments_.push_back(std::move(value));
    return *this;
}

Command& Command::arguments(std::initializer_list<std::string_view> values) {
    arguments_.insert(arguments_.end(), values.begin(), values.end());
    return *this;
}

Command& Command::environment(std::string name, std::string value) {
    changes_.insert_or_assign(std::move(name), std::move(value));
    return *this;
}

Command& Command::remove_environment(std::string name) {
    changes_.insert_or_assign(std::move(name), std::nullopt);
    return *this;
}

Command& Command::clear_environment() noexcept {
    clear_environment_ = true;
    changes_.clear();
    return *this;
}

Command& Command::directory(std::string path) {
    directory_ = std::move(path);
    return *this;
}

Command& Command::input(Stdio stream) noexcept {
    input_ = stream;
    return *this;
}

Command& Command::output(Stdio stream) noexcept {
    output_ = stream;
    return *this;
}

Command& Command::error(Stdio stream) noexcept {
    error_ = stream;
    return *this;
}

Command& Command::terminal(TerminalSize size) noexcept {
    terminal_ = size;
    return *this;
}

Command& Command::new_session() noexcept {
    new_session_ = true;
    return *this;
}

Command& Command::kill_on_close() noexcept {
    kill_on_close_ = true;
    return *this;
}

Result<Child> Command::spawn() const {
    detail::reap_orphans();
    std::vector<std::string> arguments{program_};
    arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
    if (program_.empty() || has_zero(directory_) || std::ranges::any_of(arguments, has_zero) ||
        !std::ranges::all_of(changes_, is_valid_variable)) {
        return failure(std::errc::invalid_argument);
    }
    std::vector<std::string> environment = child_environment();

    // All steps that may fail precede the start of the child, which cannot be undone.
    Child child;
    SpawnPlan plan;
    plan.reset_signals(new_session_ || terminal_);
    StandardStreams streams;
    if (const Result<> connected = terminal_
                                       ? StandardStreams::connect_terminal(plan, *terminal_, child)
                                       : streams.connect(plan, {input_, output_, error_});
        !connected) {
        return failure(connected.error());
    }
    // This step is last, so that relative paths of the streams refer to the parent's directory.
    if (!directory_.empty()) {
        plan.change_directory(directory_.c_str());
    }
    if (const Result<> adopted = streams.adopt_parent_ends(child); !adopted) {
        return failure(adopted.error());
    }
    auto state = std::make_unique<detail::ChildState>();
    std::vector<char*> argument_pointers = pointers_to(arguments);
    std::vector<char*> environment_pointers = pointers_to(environment);

    const Result<pid_t> pid =
        plan.run(program_, argument_pointers.data(), environment_pointers.data());
    if (!pid) {
        return failure(pid.error());
    }
    if (const Result<> watched = watch(*pid, *state); !watched) {
        return failure(watched.error());
    }
    state->kill_on_close = kill_on_close_;
    child.state_ = std::move(state);
    return child;
}

std::vector<std::string> Command::child_environment() const {
    std::vector<std::string> environment;
    if (!clear_environment_) {
        for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
            const std::string_view entry(*variable);
            if (!changes_.contains(entry.substr(0, entry.find('=')))) {
                environment.emplace_back(entry);
            }
        }
    }
    for (const auto& [name, value] : changes_) {
        if (value) {
            environment.push_back(name + "=" + *value);
        }
    }
    return environment;
}

} // namespace penstock::process
