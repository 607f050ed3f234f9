#pragma once

#include <array>
#include <vector>

#include <penstock/owned_descriptor.hpp>
#include <penstock/process/child.hpp>
#include <penstock/process/command.hpp>
#include <penstock/result.hpp>

#include "process/spawn_plan.hpp"

namespace penstock::process {

/// The three standard streams of a child that is about to be started. Keeps the child's ends open
/// until the child has its copies.
class StandardStreams {
public:
    /// Adds the streams to the plan. Errors: those of pipe2(2) and fcntl(2), `invalid_argument` for
    /// `Stdio::as_output` other than for standard error.
    Result<> connect(SpawnPlan& plan, const std::array<Stdio, 3>& streams);

    /// Connects all three to a new pseudo-terminal, and moves its controlling side to `child`.
    static Result<> connect_terminal(SpawnPlan& plan, TerminalSize size, Child& child);

    /// Moves the parent's ends of the pipes to `child`.
    Result<> adopt_parent_ends(Child& child);

private:
    Result<> connect_copy(SpawnPlan& plan, int standard, int fd);
    Result<> connect_pipe(SpawnPlan& plan, int standard);

    std::vector<OwnedDescriptor> child_ends_;
    std::array<OwnedDescriptor, 3> parent_ends_;
};

} // namespace penstock::process
