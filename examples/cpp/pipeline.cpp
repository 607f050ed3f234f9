// A pipeline of processes, like the shell's: sort | uniq -c. This program writes to the first and
// reads from the last. The kernel's pipe connects them.
//
//     pipeline WORD...

#include <penstock/penstock.hpp>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace penstock;
using process::Child;
using process::Command;
using process::Stdio;

namespace {

Task<Result<>> feed(PipeWriter& input, const std::vector<std::string>& words) {
    BufWriter writer(input);
    for (const std::string& word : words) {
        if (const Result<> written = co_await writer.write_all(word + "\n"); !written) {
            co_return written;
        }
    }
    const Result<> flushed = co_await writer.flush();
    input.close(); // the end of input for the first process
    co_return flushed;
}

Task<Result<>> print(PipeReader& output) {
    BufReader reader(output);
    for (;;) {
        const auto line = co_await reader.line();
        const std::optional<std::string_view> text = line.value_or(std::nullopt);
        if (!text) {
            co_return line ? Result<>() : failure(line.error());
        }
        std::printf("%.*s\n", static_cast<int>(text->size()), text->data());
    }
}

Task<Result<>> count_words(std::vector<std::string> words) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Result<BlockingPipe> between = make_blocking_pipe();
    if (!between) {
        co_return failure(between.error());
    }
    Result<Child> sort = Command("sort")
                             .input(Stdio::pipe())
                             .output(Stdio::descriptor(between->writing.get()))
                             .spawn();
    if (!sort) {
        co_return failure(sort.error());
    }
    Result<Child> uniq = Command("uniq")
                             .argument("-c")
                             .input(Stdio::descriptor(between->reading.get()))
                             .output(Stdio::pipe())
                             .spawn();
    if (!uniq) {
        co_return failure(uniq.error());
    }
    // The children have their own copies. While this program holds the write end, `uniq` waits for
    // more.
    between->writing.reset();
    between->reading.reset();
    const auto done =
        co_await all(feed(sort->input, words), print(uniq->output), sort->wait(), uniq->wait());
    co_return done ? Result<>() : failure(done.error());
}

} // namespace

int main(int count, char** arguments) {
    const Result<> counted = run(count_words({arguments + 1, arguments + count}));
    if (!counted) {
        std::fprintf(stderr, "pipeline: %s\n", counted.error().message().c_str());
        return 1;
    }
}
