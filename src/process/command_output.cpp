#include <penstock/process/command.hpp>

#include <system_error>
#include <utility>

#include <penstock/task/all.hpp>
#include <penstock/task/shield.hpp>

namespace penstock::process {

namespace {

Task<Result<>> feed(PipeWriter& pipe, const std::string& input) {
    const Result<> written = co_await pipe.write_all(input);
    pipe.close();
    if (!written && written.error() != std::errc::broken_pipe) {
        co_return written;
    }
    co_return Result<>();
}

} // namespace

Task<Result<Output>> Command::collect(Command command, std::string input, std::size_t limit) {
    command.terminal_.reset();
    command.input(Stdio::pipe()).output(Stdio::pipe()).error(Stdio::pipe()).kill_on_close();
    Result<Child> child = command.spawn();
    if (!child) {
        co_return failure(child.error());
    }
    auto collected = co_await all(feed(child->input, input), read_all_text(child->output, limit),
                                  read_all_text(child->error, limit));
    std::error_code error = collected ? std::error_code() : collected.error();
    if (!error) {
        const Result<ExitStatus> status = co_await child->wait();
        if (status) {
            co_return Output{.status = *status,
                             .output = std::move(std::get<1>(*collected)),
                             .error = std::move(std::get<2>(*collected))};
        }
        error = status.error();
    }
    (void)child->kill(); // fails only if the child has ended already
    (void)co_await shield(child->wait());
    co_return failure(error);
}

} // namespace penstock::process
