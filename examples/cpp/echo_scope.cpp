// Echo server, version 2: concurrent connections. Each connection is a task in a scope. The scope
// ends when its last task has ended, so no task outlives it.
//
//     echo_scope [PORT]             prints its address, serves three connections, and ends

#include <penstock/penstock.hpp>

#include <cstdio>
#include <cstdlib>

using namespace penstock;

namespace {

// The stream is a parameter by value: the task owns it and closes it.
Task<void> echo(net::TcpStream stream) {
    for (;;) {
        const Result<Chunk> chunk = co_await stream.receive();
        if (!chunk || chunk->empty() || !co_await stream.write_all(*chunk)) {
            co_return;
        }
    }
}

Task<Result<>> serve(net::Endpoint endpoint) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Result<net::TcpListener> listener = net::TcpListener::listen(endpoint);
    if (!listener) {
        co_return failure(listener.error());
    }
    std::printf("listening on %s\n", listener->local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    co_return co_await with_scope([&](Scope& connections) -> Task<Result<>> {
        for (int taken = 0; taken < 3; ++taken) {
            Result<net::TcpStream> stream = co_await listener->accept();
            if (!stream) {
                co_return failure(stream.error());
            }
            connections.spawn(echo(std::move(*stream)));
        }
        co_return Result<>();
    });
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 0);
    const Result<> served = run(serve(net::Endpoint::loopback(port)));
    if (!served) {
        std::fprintf(stderr, "echo_scope: %s\n", served.error().message().c_str());
        return 1;
    }
}
