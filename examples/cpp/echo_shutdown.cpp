// An echo server, fourth telling: it runs until SIGINT or SIGTERM, takes no new connections then, gives
// those that are open a while to finish, and ends the rest.
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

// Ends when all connections have, after the listener was closed.
Task<Result<>> serve_all(net::TcpListener& listener) {
    co_return co_await with_scope([&](Scope& connections) -> Task<Result<>> {
        while (listener.is_open()) {
            Result<net::TcpStream> stream = co_await listener.accept();
            if (stream) {
                connections.spawn(echo(std::move(*stream)));
            } else if (listener.is_open()) {
                co_return failure(stream.error());
            }
        }
        co_return Result<>();
    });
}

// Ends when the time that open connections are given is over.
Task<void> stop_when_told(Signal& stop, net::TcpListener& listener,
                          std::chrono::milliseconds grace) {
    if (co_await stop.wait()) {
        std::printf("stopping\n");
        std::fflush(stdout);
        listener.close();
        (void)co_await sleep_for(grace);
    }
}

Task<Result<>> serve(net::Endpoint endpoint, std::chrono::milliseconds grace) {
    const TraceOnSignal trace; // Ctrl-\ prints which task waits where
    Result<Signal> stop = Signal::on({SIGINT, SIGTERM});
    if (!stop) {
        co_return failure(stop.error());
    }
    Result<net::TcpListener> listener = net::TcpListener::listen(endpoint);
    if (!listener) {
        co_return failure(listener.error());
    }
    std::printf("listening on %s\n", listener->local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    // Whoever ends first ends the other: no connection is left, or the time is over.
    const auto first = co_await race(serve_all(*listener), stop_when_told(*stop, *listener, grace));
    co_return first.index() == 0 ? std::get<0>(first) : Result<>();
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
