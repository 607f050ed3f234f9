// Echo server, version 4: graceful shutdown. After SIGINT or SIGTERM it accepts no new connections,
// waits a grace period for the open connections to end, and cancels the rest.
//
//     echo_shutdown [PORT [MILLISECONDS]]

#include <penstock/penstock.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

using namespace penstock;

namespace {

Task<void> echo(net::TcpStream stream) {
    for (;;) {
        const Result<Chunk> chunk = co_await stream.receive();
        if (!chunk || chunk->empty() || !co_await stream.write_all(*chunk)) {
            co_return;
        }
    }
}

Task<Result<>> accept_all(net::TcpListener& listener, Scope& connections) {
    for (;;) {
        connections.spawn(echo(co_await unwrap(listener.accept())));
    }
}

Task<Result<>> serve(net::Endpoint endpoint, std::chrono::milliseconds grace) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Signal stop = co_await unwrap(Signal::on({SIGINT, SIGTERM}));
    net::TcpListener listener = co_await unwrap(net::TcpListener::listen(endpoint));
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    co_return co_await with_scope([&](Scope& connections) -> Task<Result<>> {
        const auto first = co_await race(accept_all(listener, connections), stop.wait());
        if (first.index() == 0) {
            co_return std::get<0>(first);
        }
        std::printf("stopping\n");
        std::fflush(stdout);
        listener.close();
        (void)co_await connections.drain(grace); // after the grace period it cancels the rest
        co_return Result<>();
    });
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 0);
    const std::chrono::milliseconds grace(count > 2 ? std::atoi(arguments[2]) : 5'000);
    const Result<> served = run(serve(net::Endpoint::loopback(port), grace));
    if (!served) {
        std::fprintf(stderr, "echo_shutdown: %s\n", served.error().message().c_str());
        return 1;
    }
    std::printf("stopped\n");
}
