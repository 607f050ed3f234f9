#include "process/standard_streams.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace penstock::process {

namespace {

/// A copy of a descriptor above the three standard ones. The child fills those one after the other,
/// which must not overwrite a source that is copied later.
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
        if (end.get() <= STDERR_FILENO) { // the parent has closed a standard stream
            Result<OwnedDescriptor> copy = copy_above_standard(end.get());
            if (!copy) {
                return failure(copy.error());
            }
            end = std::move(*copy);
        }
    }
    return pipe;
}

} // namespace

Result<> StandardStreams::connect(SpawnPlan& plan, const std::array<Stdio, 3>& streams) {
    for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; ++standard) {
        const Stdio& stream = streams[static_cast<std::size_t>(standard)];
        Result<> connected;
        switch (stream.kind_) {
        case Stdio::Kind::inherit:
            break;
        case Stdio::Kind::null:
            plan.open(standard, "/dev/null", O_RDWR);
            break;
        case Stdio::Kind::descriptor:
            connected = connect_copy(plan, standard, stream.fd_);
            break;
        case Stdio::Kind::as_output:
            if (standard != STDERR_FILENO) {
                return failure(std::errc::invalid_argument);
            }
            plan.copy(STDOUT_FILENO, STDERR_FILENO);
            break;
        case Stdio::Kind::pipe:
            connected = connect_pipe(plan, standard);
            break;
        }
        if (!connected) {
            return connected;
        }
    }
    return {};
}

Result<> StandardStreams::connect_copy(SpawnPlan& plan, int standard, int fd) {
    Result<OwnedDescriptor> copy = copy_above_standard(fd);
    if (!copy) {
        return failure(copy.error());
    }
    plan.copy(copy->get(), standard);
    child_ends_.push_back(std::move(*copy));
    return {};
}

Result<> StandardStreams::connect_pipe(SpawnPlan& plan, int standard) {
    Result<std::array<OwnedDescriptor, 2>> pipe = pipe_above_standard();
    if (!pipe) {
        return failure(pipe.error());
    }
    const std::size_t childs = standard == STDIN_FILENO ? 0 : 1;
    plan.copy((*pipe)[childs].get(), standard);
    parent_ends_[static_cast<std::size_t>(standard)] = std::move((*pipe)[1 - childs]);
    child_ends_.push_back(std::move((*pipe)[childs]));
    return {};
}

Result<> StandardStreams::connect_terminal(SpawnPlan& plan, TerminalSize size, Child& child) {
    Result<std::pair<Terminal, std::string>> opened = Terminal::open(size);
    if (!opened) {
        return failure(opened.error());
    }
    child.terminal = std::move(opened->first);
    // The first terminal that a session leader opens becomes its controlling terminal.
    plan.open(STDIN_FILENO, opened->second.c_str(), O_RDWR);
    plan.copy(STDIN_FILENO, STDOUT_FILENO);
    plan.copy(STDIN_FILENO, STDERR_FILENO);
    return {};
}

Result<> StandardStreams::adopt_parent_ends(Child& child) {
    if (parent_ends_[STDIN_FILENO]) {
        Result<PipeWriter> writer = PipeWriter::adopt(std::move(parent_ends_[STDIN_FILENO]));
        if (!writer) {
            return failure(writer.error());
        }
        child.input = std::move(*writer);
    }
    for (auto [end, reader] : {std::pair(&parent_ends_[STDOUT_FILENO], &child.output),
                               std::pair(&parent_ends_[STDERR_FILENO], &child.error)}) {
        if (*end) {
            Result<PipeReader> adopted = PipeReader::adopt(std::move(*end));
            if (!adopted) {
                return failure(adopted.error());
            }
            *reader = std::move(*adopted);
        }
    }
    return {};
}

} // namespace penstock::process
