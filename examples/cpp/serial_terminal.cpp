// A serial terminal: what is typed goes to the port, what the port says goes to the screen, until the end of
// the input (Ctrl+D).
//
//     serial_terminal PORT [BAUD_RATE]

#include <penstock/penstock.hpp>

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace penstock;

namespace {

// The program's own descriptors are shared with its shell: it works on copies, and leaves them open.
Result<OwnedDescriptor> copy_of(int fd) {
    OwnedDescriptor copy(::dup(fd));
    if (!copy) {
        return last_failure();
    }
    return copy;
}

Task<Result<>> talk(std::string path, serial::Options options) {
    const TraceOnSignal trace; // Ctrl-\ prints which task waits where
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
    // The end of the input ends the talk.
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
    const Result<> talked = run(talk(arguments[1], options));
    if (!talked) {
        std::fprintf(stderr, "serial_terminal: %s: %s\n", arguments[1],
                     talked.error().message().c_str());
        return 1;
    }
}
