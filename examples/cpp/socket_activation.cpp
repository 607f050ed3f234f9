// A server that systemd starts when somebody connects, and that ends when nobody has for a while:
// the socket stays open, and the next client starts it again. Without systemd it opens a port.
//
//     socket_activation [PORT [IDLE-SECONDS]]
//
// /etc/systemd/system/hello.socket has [Socket] ListenStream=127.0.0.1:8080, and hello.service has
// [Service] ExecStart=/usr/local/bin/socket_activation. By hand:
//
//     systemd-socket-activate -l 8080 ./socket_activation

#include <penstock/http.hpp>
#include <penstock/penstock.hpp>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <variant>

#include <unistd.h>

using namespace penstock;
using namespace std::chrono_literals;

namespace {

/// The socket that systemd has passed on (sd_listen_fds(3)), or else one of our own.
Result<net::TcpListener> listener_of(std::uint16_t port) {
    const char* const process = std::getenv("LISTEN_PID");
    const char* const count = std::getenv("LISTEN_FDS");
    if (process == nullptr || count == nullptr || std::atol(process) != ::getpid()) {
        return net::TcpListener::listen(net::Endpoint::loopback(port));
    }
    if (std::string_view(count) != "1") {
        return failure(std::errc::invalid_argument);
    }
    constexpr int first = 3; // SD_LISTEN_FDS_START
    return net::TcpListener::adopt(OwnedDescriptor(first));
}

/// Ends when there has been no connection for so long.
Task<Result<>> until_idle(http::Server& server, std::chrono::seconds limit) {
    std::chrono::seconds idle{0};
    while (idle < limit) {
        co_await unwrap(sleep_for(1s));
        idle = server.connections() > 0 ? 0s : idle + 1s;
    }
    co_return Result<>();
}

Task<Result<>> serve(std::uint16_t port, std::chrono::seconds limit) {
    net::TcpListener listener = co_await unwrap(listener_of(port));
    http::Server server;
    server.get("/", [](http::Request&, http::Response& response) { response.body("hello\n"); });
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    const auto served = [&]() -> Task<Result<>> {
        const auto first =
            co_await race(server.serve(std::move(listener)), until_idle(server, limit));
        co_return std::visit([](const Result<>& ended) { return ended; }, first);
    };
    co_return co_await until_signal(served(), [&server] { server.stop(5s); });
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 0);
    const std::chrono::seconds limit(count > 2 ? std::atoi(arguments[2]) : 60);
    if (const Result<> served = run(serve(port, limit)); !served) {
        std::fprintf(stderr, "socket_activation: %s\n", served.error().message().c_str());
        return 1;
    }
}
