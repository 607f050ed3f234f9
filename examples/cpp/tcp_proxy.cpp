// A TCP proxy: passes each connection on to another server, in both directions. A connection on
// which no byte has passed for a while, in either direction, is closed. After SIGINT or SIGTERM it
// accepts no new connections, and waits for the open ones, at most for five seconds.
//
//     tcp_proxy HOST PORT [OWN-PORT [IDLE-MILLISECONDS]]

#include <penstock/penstock.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace penstock;
using namespace std::chrono_literals;

namespace {

struct Settings {
    std::string host;
    std::uint16_t port;
    std::chrono::milliseconds idle;
};

// Both directions move the same deadline.
Task<Result<>> forward(net::TcpStream& from, net::TcpStream& to, Deadline& deadline,
                       std::chrono::milliseconds idle) {
    for (;;) {
        const Chunk chunk = co_await unwrap(from.receive());
        if (chunk.empty()) {
            co_return to.shutdown(); // the other direction goes on
        }
        deadline.expire_after(idle);
        co_await unwrap(to.write_all(chunk));
    }
}

Task<Result<>> connect_both(net::TcpStream& client, const Settings& settings) {
    net::TcpStream server =
        co_await unwrap(timeout(10s, net::TcpStream::connect(settings.host, settings.port)));
    co_return co_await with_deadline(settings.idle, [&](Deadline& deadline) -> Task<Result<>> {
        co_await unwrap(all(forward(client, server, deadline, settings.idle),
                            forward(server, client, deadline, settings.idle)));
        co_return Result<>();
    });
}

Task<void> serve_client(net::TcpStream client, const Settings& settings) {
    if (const Result<> ended = co_await connect_both(client, settings); !ended) {
        std::printf("%s\n", ended.error() == std::errc::timed_out
                                ? "idle for too long, closing"
                                : ended.error().message().c_str());
        std::fflush(stdout);
    }
}

Task<Result<>> accept_all(net::TcpListener& listener, const Settings& settings, Scope& clients) {
    for (;;) {
        clients.spawn(serve_client(co_await unwrap(listener.accept()), settings));
    }
}

Task<Result<>> serve(net::Endpoint endpoint, Settings settings) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Signal stop = co_await unwrap(Signal::on({SIGINT, SIGTERM}));
    net::TcpListener listener = co_await unwrap(net::TcpListener::listen(endpoint));
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    co_return co_await with_scope([&](Scope& clients) -> Task<Result<>> {
        const auto first = co_await race(accept_all(listener, settings, clients), stop.wait());
        if (first.index() == 0) {
            co_return std::get<0>(first);
        }
        listener.close();
        (void)co_await clients.drain(5s);
        co_return Result<>();
    });
}

} // namespace

int main(int count, char** arguments) {
    if (count < 3) {
        std::fprintf(stderr, "usage: tcp_proxy HOST PORT [OWN-PORT [IDLE-MILLISECONDS]]\n");
        return 2;
    }
    const auto number = [&](int index, int otherwise) {
        return count > index ? std::atoi(arguments[index]) : otherwise;
    };
    const Result<> served =
        run(serve(net::Endpoint::loopback(static_cast<std::uint16_t>(number(3, 0))),
                  {.host = arguments[1],
                   .port = static_cast<std::uint16_t>(number(2, 0)),
                   .idle = std::chrono::milliseconds(number(4, 60'000))}));
    if (!served) {
        std::fprintf(stderr, "tcp_proxy: %s\n", served.error().message().c_str());
        return 1;
    }
}
