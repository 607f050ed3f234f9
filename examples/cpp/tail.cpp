// tail -f: prints lines that are appended to a file, until it is stopped.
//
//     tail FILE [LINES]             with LINES it ends after that many

#include <penstock/penstock.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

using namespace penstock;

namespace {

// A reader that waits for more data at the end of a file.
class Follower {
public:
    explicit Follower(fs::File file) : file_(std::move(file)) {}

    Task<Result<std::size_t>> read(MutableBytes into) {
        for (;;) {
            const Result<std::size_t> count = co_await file_.read(into);
            if (!count || *count > 0) {
                co_return count;
            }
            if (const Result<> slept = co_await sleep_for(std::chrono::milliseconds(50)); !slept) {
                co_return failure(slept.error());
            }
        }
    }

private:
    fs::File file_;
};

Task<Result<>> follow(std::string path, long lines) {
    Result<fs::File> file = co_await fs::File::open(path);
    if (!file) {
        co_return failure(file.error());
    }
    BufReader reader(Follower(std::move(*file)));
    for (long printed = 0; printed < lines; ++printed) {
        const auto line = co_await reader.line();
        const std::optional<std::string_view> text = line.value_or(std::nullopt);
        if (!text) {
            co_return line ? Result<>() : failure(line.error());
        }
        std::printf("%.*s\n", static_cast<int>(text->size()), text->data());
        std::fflush(stdout);
    }
    co_return Result<>();
}

Task<Result<>> follow_until_stopped(std::string path, long lines) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Result<Signal> stop = Signal::on({SIGINT, SIGTERM});
    if (!stop) {
        co_return failure(stop.error());
    }
    const auto first = co_await race(follow(path, lines), stop->wait());
    co_return first.index() == 0 ? std::get<0>(first) : Result<>();
}

} // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        std::fprintf(stderr, "usage: tail FILE [LINES]\n");
        return 2;
    }
    const long lines = count > 2 ? std::atol(arguments[2]) : std::numeric_limits<long>::max();
    const Result<> followed = run(follow_until_stopped(arguments[1], lines));
    if (!followed) {
        std::fprintf(stderr, "tail: %s: %s\n", arguments[1], followed.error().message().c_str());
        return 1;
    }
}
