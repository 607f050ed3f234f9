// A serial terminal: copies standard input to the port and the port to standard output, until the
// end of the input (Ctrl+D).
//
//     serial_terminal PORT [BAUD_RATE]

#include <penstock/penstock.hpp>

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace penstock;

namespace {

// The shell shares the standard descriptors, so this program uses copies and leaves them open.
Result<OwnedDescriptor> copy_of(int fd) {
    OwnedDescriptor copy(::dup(fd));
    if (!copy) {
        return last_failure();
    }
    return copy;
}

Task<Result<>> run_terminal(std::string path, serial::Options options) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Result<serial::Port> port = serial::Port::open(path, options);
    if (!port) {
        co_return failure(port.error());
    }
    Result<OwnedDescriptor> in = copy_of(STDIN_FILENO);
    Result<OwnedDescriptor> out = copy_of(STDOUT_FILENO);
    if (!in || !out) {
        co_return failure(in ? out.error() : in.error());
    }
    Result<PipeReader> keyboard = PipeReader::adopt(std::move(*in));
    Result<PipeWriter> screen = PipeWriter::adopt(std::move(*out));
    if (!keyboard || !screen) {
        co_return failure(keyboard ? screen.error() : keyboard.error());
    }
    // The end of the input ends the program.
    const auto first = co_await race(copy(*keyboard, *port), copy(*port, *screen));
    const Result<std::uint64_t>& ended =
        first.index() == 0 ? std::get<0>(first) : std::get<1>(first);
    if (!ended) {
        co_return failure(ended.error());
    }
    co_return co_await port->drain();
}

} // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        std::fprintf(stderr, "usage: serial_terminal PORT [BAUD_RATE]\n");
        return 2;
    }
    serial::Options options;
    if (count > 2) {
        options.baud_rate = static_cast<std::uint32_t>(std::atol(arguments[2]));
    }
    const Result<> ended = run(run_terminal(arguments[1], options));
    if (!ended) {
        std::fprintf(stderr, "serial_terminal: %s: %s\n", arguments[1],
                     ended.error().message().c_str());
        return 1;
    }
}
