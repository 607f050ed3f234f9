#pragma once

#include <string>

#include <penstock/process/exit_status.hpp>

namespace penstock::process {

/// What `Command::output` collects.
struct Output {
    ExitStatus status = ExitStatus::exited(0);
    std::string output{}; ///< of the standard output
    std::string error{};  ///< of the standard error
};

} // namespace penstock::process
