// WebSocket echo server, with compression for clients that want it. After SIGINT or SIGTERM it
// accepts no new connections, sends the others a close frame, waits for them a grace period, and
// ends.
//
//     ws_echo [PORT [MILLISECONDS]]

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace penstock;

namespace {

Task<Result<>> echo(ws::WebSocket& socket) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

Task<Result<>> serve(net::Endpoint endpoint, std::chrono::milliseconds grace) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    ws::ServerOptions options{.on_error = [](std::error_code error) {
        std::fprintf(stderr, "ws_echo: %s\n", error.message().c_str());
    }};
    options.accept.compression = ws::deflate();
    ws::Server server = co_await unwrap(ws::Server::listen(endpoint, std::move(options)));
    std::printf("listening on %s\n", server.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    co_return co_await until_signal(server.serve(echo), [&server, grace] {
        std::printf("stopping\n");
        std::fflush(stdout);
        server.shutdown(grace);
    });
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 0);
    const std::chrono::milliseconds grace(count > 2 ? std::atoi(arguments[2]) : 5'000);
    const Result<> served = run(serve(net::Endpoint::loopback(port), grace));
    if (!served) {
        std::fprintf(stderr, "ws_echo: %s\n", served.error().message().c_str());
        return 1;
    }
    std::printf("stopped\n");
}
