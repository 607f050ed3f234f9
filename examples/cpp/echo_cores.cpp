// Echo server, version 5: a loop on each processor. Each loop has its own listener on the same port
// (SO_REUSEPORT), so connections need no hand-over between threads. One loop waits for the signal,
// and an event stops all of them.
//
//     echo_cores [PORT [LOOPS]]

#include <penstock/penstock.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace penstock;
using namespace std::chrono_literals;

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

// Runs on each loop.
Task<Result<>> serve(net::TcpListener listener, sync::Event& stop) {
    co_return co_await with_scope([&](Scope& connections) -> Task<Result<>> {
        const auto first = co_await race(accept_all(listener, connections), stop.wait());
        listener.close();
        (void)co_await connections.drain(5s);
        co_return first.index() == 0 ? std::get<0>(first) : Result<>();
    });
}

Task<Result<>> stop_on_signal(Signal signal, sync::Event& stop) {
    co_await unwrap(signal.wait());
    std::printf("stopping\n");
    std::fflush(stdout);
    stop.set();
    co_return Result<>();
}

Result<> serve_on(std::size_t loops, const net::Endpoint& endpoint) {
    const net::TcpListener::Options shared{.reuse_port = true};
    // Opened before any loop runs: with port 0 the kernel chooses one for the first.
    std::vector<net::TcpListener> listeners;
    net::Endpoint bound = endpoint;
    for (std::size_t i = 0; i < loops; ++i) {
        Result<net::TcpListener> listener = net::TcpListener::listen(bound, shared);
        if (!listener) {
            return failure(listener.error());
        }
        bound = *listener->local_endpoint();
        listeners.push_back(std::move(*listener));
    }
    Result<Signal> signal = Signal::on({SIGINT, SIGTERM});
    if (!signal) {
        return failure(signal.error());
    }
    std::printf("listening on %s\n", bound.to_string().c_str());
    std::fflush(stdout);
    sync::Event stop;
    return run_on(loops, [&](std::size_t index) -> Task<Result<>> {
        Task<Result<>> server = serve(std::move(listeners[index]), stop);
        if (index > 0) {
            co_return co_await std::move(server);
        }
        const auto both = co_await all(std::move(server), stop_on_signal(std::move(*signal), stop));
        co_return both ? Result<>() : failure(both.error());
    });
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 0);
    const std::size_t loops = count > 2 ? static_cast<std::size_t>(std::atoi(arguments[2]))
                                        : std::max(1U, std::thread::hardware_concurrency());
    const Result<> served = serve_on(loops, net::Endpoint::loopback(port));
    if (!served) {
        std::fprintf(stderr, "echo_cores: %s\n", served.error().message().c_str());
        return 1;
    }
    std::printf("stopped\n");
}
