// Runs shell commands, several at a time, and prints what each has written and how it has ended, in
// the order of the commands. Ends with 1 if one has failed.
//
//     parallel LIMIT COMMAND...

#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace penstock;
using process::Command;
using process::Output;

namespace {

Task<Result<Output>> run_command(const std::string& command) {
    // Cancelled, for example because another command could not start, it kills the process.
    co_return co_await Command("sh").arguments({"-c", command}).output();
}

Task<Result<bool>> run_all(std::size_t limit, std::vector<std::string> commands) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    const std::vector<Output> outputs =
        co_await unwrap(map_concurrent(commands, limit, run_command));
    bool success = true;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const bool succeeded = outputs[i].status.success();
        std::printf("%s: %s\n%s%s", commands[i].c_str(), succeeded ? "succeeded" : "failed",
                    outputs[i].output.c_str(), outputs[i].error.c_str());
        success = success && succeeded;
    }
    co_return success;
}

} // namespace

int main(int count, char** arguments) {
    const int limit = count > 2 ? std::atoi(arguments[1]) : 0;
    if (limit < 1) {
        std::fprintf(stderr, "usage: parallel LIMIT COMMAND...\n");
        return 2;
    }
    const Result<bool> success =
        run(run_all(static_cast<std::size_t>(limit), {arguments + 2, arguments + count}));
    if (!success) {
        std::fprintf(stderr, "parallel: %s\n", success.error().message().c_str());
        return 1;
    }
    return *success ? 0 : 1;
}
