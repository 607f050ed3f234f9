#include <penstock/process/command.hpp>

#include <algorithm>
#include <array>
#include <csignal>

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char**
    environ; // NOLINT(readability-redundant-declaration): the C library's headers may lack it

namespace penstock::process {

using penstock::detail::Pollable;

namespace {

/// posix_spawn's two lists, with what it has to do in the child. Its functions return an errno.
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

/// A copy of a descriptor that is none of the three standard ones. In the child those are filled one after
/// the other, and one that is to be copied later must not be overwritten before.
Result<OwnedDescriptor> copy_above_standard(int fd) noexcept {
    OwnedDescriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!copy) {
        return last_failure();
    }
    return copy;
}

Result<std::array<OwnedDescriptor, 2>> pipe_above_standard() noexcept {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return last_failure();
    }
    std::array<OwnedDescriptor, 2> pipe{OwnedDescriptor(ends[0]), OwnedDescriptor(ends[1])};
    for (OwnedDescriptor& end : pipe) {
        if (end.get() <= STDERR_FILENO) { // the parent has closed one of its own
            Result<OwnedDescriptor> copy = copy_above_standard(end.get());
            if (!copy) {
                return failure(copy.error());
            }
            end = std::move(*copy);
        }
    }
    return pipe;
}

bool has_zero(std::string_view text) noexcept {
    return text.find('\0') != std::string_view::npos;
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

/// Nobody can tell of a process without a descriptor how it ends: it is not let run.
void end_unwatched(pid_t pid) noexcept {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
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

Command& Command::without_environment(std::string name) {
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

Command& Command::input(Stream stream) noexcept {
    input_ = stream;
    return *this;
}

Command& Command::output(Stream stream) noexcept {
    output_ = stream;
    return *this;
}

Command& Command::error(Stream stream) noexcept {
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
    std::vector<std::string> environment;
    if (!clear_environment_) {
        for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
            const std::string_view entry(*variable);
            if (!changes_.contains(entry.substr(0, entry.find('=')))) {
                environment.emplace_back(entry);
            }
        }
    }
    bool bad = program_.empty() || has_zero(directory_) || std::ranges::any_of(arguments, has_zero);
    for (const auto& [name, value] : changes_) {
        bad = bad || name.empty() || has_zero(name) || name.contains('=') ||
              (value && has_zero(*value));
        if (value) {
            environment.push_back(name + "=" + *value);
        }
    }
    if (bad) {
        return failure(std::errc::invalid_argument);
    }

    Child child;
    child.kill_on_close_ = kill_on_close_;
    SpawnPlan plan;
    plan.reset_signals(new_session_ || terminal_);
    std::vector<OwnedDescriptor> childs_ends; // open until the child has its copies
    std::array<OwnedDescriptor, 3> own_ends;

    if (terminal_) {
        Result<std::pair<Terminal, std::string>> opened = Terminal::open(*terminal_);
        if (!opened) {
            return failure(opened.error());
        }
        child.terminal = std::move(opened->first);
        // The first terminal that the leader of a new session opens becomes its controlling one.
        plan.open(STDIN_FILENO, opened->second.c_str(), O_RDWR);
        plan.copy(STDIN_FILENO, STDOUT_FILENO);
        plan.copy(STDIN_FILENO, STDERR_FILENO);
    } else {
        const std::array<Stream, 3> streams{input_, output_, error_};
        for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; ++standard) {
            const Stream& stream = streams[static_cast<std::size_t>(standard)];
            switch (stream.kind_) {
            case Stream::Kind::inherit:
                break;
            case Stream::Kind::null:
                plan.open(standard, "/dev/null", O_RDWR);
                break;
            case Stream::Kind::descriptor: {
                Result<OwnedDescriptor> copy = copy_above_standard(stream.fd_);
                if (!copy) {
                    return failure(copy.error());
                }
                plan.copy(copy->get(), standard);
                childs_ends.push_back(std::move(*copy));
                break;
            }
            case Stream::Kind::as_output:
                if (standard != STDERR_FILENO) {
                    return failure(std::errc::invalid_argument);
                }
                plan.copy(STDOUT_FILENO, STDERR_FILENO);
                break;
            case Stream::Kind::pipe: {
                Result<std::array<OwnedDescriptor, 2>> pipe = pipe_above_standard();
                if (!pipe) {
                    return failure(pipe.error());
                }
                const std::size_t childs = standard == STDIN_FILENO ? 0 : 1;
                plan.copy((*pipe)[childs].get(), standard);
                own_ends[static_cast<std::size_t>(standard)] = std::move((*pipe)[1 - childs]);
                childs_ends.push_back(std::move((*pipe)[childs]));
                break;
            }
            }
        }
    }
    // Last, so that a path of the streams' is the parent's.
    if (!directory_.empty()) {
        plan.change_directory(directory_.c_str());
    }

    // Everything that may fail comes before the child: afterwards there is no way back.
    if (own_ends[0]) {
        Result<PipeWriter> writer = PipeWriter::adopt(std::move(own_ends[0]));
        if (!writer) {
            return failure(writer.error());
        }
        child.input = std::move(*writer);
    }
    for (auto [from, reader] :
         {std::pair(&own_ends[1], &child.output), std::pair(&own_ends[2], &child.error)}) {
        if (*from) {
            Result<PipeReader> adopted = PipeReader::adopt(std::move(*from));
            if (!adopted) {
                return failure(adopted.error());
            }
            *reader = std::move(*adopted);
        }
    }
    auto state = std::make_unique<detail::ChildState>();

    std::vector<char*> argument_pointers = pointers_to(arguments);
    std::vector<char*> environment_pointers = pointers_to(environment);
    const Result<pid_t> pid =
        plan.run(program_, argument_pointers.data(), environment_pointers.data());
    if (!pid) {
        return failure(pid.error());
    }
    // It has not been waited for, so the number is still this child's.
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0));
    if (pidfd < 0) {
        const auto refused = last_failure();
        end_unwatched(*pid);
        return refused;
    }
    try {
        state->pidfd = Pollable::adopt(pidfd);
    } catch (const std::bad_alloc&) {
        end_unwatched(*pid);
        throw;
    }
    state->pid = *pid;
    state->parent = ::getpid();
    child.state_ = std::move(state);
    return child;
}

} // namespace penstock::process
