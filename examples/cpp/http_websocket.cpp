// A page and a WebSocket on one port: the page shows the time, which the server sends to everybody
// who looks at it. After SIGINT or SIGTERM each browser gets a close frame, and the program ends.
//
//     http_websocket [PORT]
//
// Then open http://127.0.0.1:PORT/.

#include <penstock/http.hpp>
#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace penstock;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view page = R"(<!doctype html>
<title>Clock</title>
<h1 id="time">...</h1>
<script>
const socket = new WebSocket(`ws://${location.host}/clock`);
socket.onmessage = event => document.getElementById("time").textContent = event.data;
</script>
)";

void show_page(http::Request&, http::Response& response) {
    response.header("Content-Type", "text/html; charset=utf-8");
    response.body(page);
}

// Sends the seconds since the start. Ends with the connection, when `send_text` fails.
Task<Result<>> send_time(ws::WebSocket& socket) {
    for (int seconds = 0;; ++seconds) {
        co_await unwrap(socket.send_text(std::to_string(seconds) + " s"));
        co_await unwrap(sleep_for(1s));
    }
}

// Who sends must also receive, so that pings and the close frame are answered.
Task<Result<>> receive_until_closed(ws::WebSocket& socket) {
    for (;;) {
        co_await unwrap(socket.receive());
    }
}

Task<Result<>> show_time(ws::WebSocket& socket) {
    const auto ended = co_await all(send_time(socket), receive_until_closed(socket));
    co_return failure(ended.error()); // neither ends with a success
}

Task<Result<>> serve(std::uint16_t port) {
    http::Server server;
    server.get("/", show_page);
    server.upgrade("/clock", "websocket", ws::upgrade_handler(show_time));
    net::TcpListener listener =
        co_await unwrap(net::TcpListener::listen(net::Endpoint::loopback(port)));
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    co_return co_await until_signal(server.serve(std::move(listener)), [&server] {
        std::printf("stopping\n");
        std::fflush(stdout);
        server.stop(5s);
    });
}

} // namespace

int main(int arguments_count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(arguments_count > 1 ? std::atoi(arguments[1]) : 0);
    if (const Result<> served = run(serve(port)); !served) {
        std::fprintf(stderr, "http_websocket: %s\n", served.error().message().c_str());
        return 1;
    }
    std::printf("stopped\n");
}
