// What tests/conformance/autobahn.py runs the Autobahn test suite against.
//
//     autobahn_peer serve       an echo server, until its standard input ends; prints its URL
//                               with CALLBACKS in the environment, its handler is functions
//     autobahn_peer ask URL     runs all cases of the suite's server at URL

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

using namespace penstock;

namespace {

constexpr const char* agent = "penstock";

/// Larger than the largest message of any case.
ws::Limits limits() {
    return {.message = std::uint64_t{1} << 26, .handshake = std::chrono::minutes(1)};
}

Task<Result<>> echo(ws::WebSocket& socket) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

Task<Result<>> wait_for_end_of_input() {
    PipeReader input = co_await unwrap(PipeReader::adopt(OwnedDescriptor(0)));
    std::array<char, 64> ignored{};
    while (co_await unwrap(input.read(ignored)) != 0) {
    }
    co_return Result<>();
}

struct Echo {
    static void on_message(ws::CallbackSocket& socket, const ws::Message& message) {
        socket.send(message);
    }
};

Task<Result<>> serve() {
    ws::ServerOptions options;
    options.accept.limits = limits();
    options.accept.compression = ws::deflate({.threshold = 0});
    ws::Server server =
        co_await unwrap(ws::Server::listen(net::Endpoint::loopback(0), std::move(options)));
    std::printf("ws://127.0.0.1:%u\n", unsigned{server.local_endpoint()->port()});
    std::fflush(stdout);
    const ws::Callbacks callbacks([] { return Echo(); }, {.maximum_backlog = std::size_t{1} << 30});
    const auto first = co_await race(std::getenv("CALLBACKS") != nullptr ? server.serve(callbacks)
                                                                         : server.serve(echo),
                                     wait_for_end_of_input());
    co_return first.index() == 0 ? std::get<0>(first) : std::get<1>(first);
}

Task<Result<ws::WebSocket>> connect(std::string url) {
    return ws::WebSocket::connect(
        std::move(url), {.compression = ws::deflate({.threshold = 0}), .limits = limits()});
}

Task<Result<>> ask(std::string url) {
    int cases = 0;
    {
        ws::WebSocket socket = co_await unwrap(connect(url + "/getCaseCount"));
        const ws::Message count = co_await unwrap(socket.receive());
        const std::string_view text = count.text();
        std::from_chars(text.data(), text.data() + text.size(), cases);
    }
    for (int number = 1; number <= cases; ++number) {
        Result<ws::WebSocket> socket =
            co_await connect(url + "/runCase?case=" + std::to_string(number) + "&agent=" + agent);
        if (!socket) {
            std::fprintf(stderr, "case %d: %s\n", number, socket.error().message().c_str());
            continue;
        }
        const Result<> echoed = co_await echo(*socket);
        // The suite reads our close frame, and ends the connection.
        if (echoed.error() != ws::Error::closed) {
            (void)co_await socket->close();
        }
    }
    ws::WebSocket socket = co_await unwrap(connect(url + "/updateReports?agent=" + agent));
    (void)co_await socket.receive();
    co_return Result<>();
}

} // namespace

int main(int count, char** arguments) {
    const bool serves = count == 2 && std::string_view(arguments[1]) == "serve";
    if (!serves && (count != 3 || std::string_view(arguments[1]) != "ask")) {
        std::fprintf(stderr, "usage: autobahn_peer serve | ask URL\n");
        return 2;
    }
    const Result<> ended = run(serves ? serve() : ask(arguments[2]));
    if (!ended) {
        std::fprintf(stderr, "autobahn_peer: %s\n", ended.error().message().c_str());
        return 1;
    }
}
