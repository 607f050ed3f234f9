// Echo server, version 3: idle connections are closed. `timeout` takes any operation or task. A
// cancelled operation has ended when `timeout` returns.
//
//     echo_timeout [PORT [MILLISECONDS]]    prints its address, serves three connections, and ends

#include <penstock/penstock.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace penstock;

namespace {

Task<void> echo(net::TcpStream stream, std::chrono::milliseconds idle_limit) {
    for (;;) {
        const Result<Chunk> chunk = co_await timeout(idle_limit, stream.receive());
        if (!chunk && chunk.error() == std::errc::timed_out) {
            (void)co_await stream.write_all("idle for too long, closing\n");
            co_return;
        }
        if (!chunk || chunk->empty() || !co_await stream.write_all(*chunk)) {
            co_return;
        }
    }
}

Task<Result<>> serve(net::Endpoint endpoint, std::chrono::milliseconds idle_limit) {
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
            connections.spawn(echo(std::move(*stream), idle_limit));
        }
        co_return Result<>();
    });
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 0);
    const std::chrono::milliseconds idle_limit(count > 2 ? std::atoi(arguments[2]) : 30'000);
    const Result<> served = run(serve(net::Endpoint::loopback(port), idle_limit));
    if (!served) {
        std::fprintf(stderr, "echo_timeout: %s\n", served.error().message().c_str());
        return 1;
    }
}
