// The server of the WebSocket page with uWebSockets, on its own event loop (epoll): an echo, as in
// its documentation, without time-outs and pings.
//
//     websocket_uwebsockets [deflate | publish]
//
// publish: what is sent goes to all connections.

#include "until_stdin_ends_uwebsockets.hpp"

#include <string_view>
#include <utility>

#include <App.h>

namespace {

struct Nothing {};

// As much as the others take, and more than a client leaves unread.
constexpr unsigned kLargest = 1U << 26;

uWS::App::WebSocketBehavior<Nothing> echo(bool deflate) {
    uWS::App::WebSocketBehavior<Nothing> behavior;
    // One compressor for all connections is its fastest here: with a window for each of them, and
    // with libdeflate instead of zlib, it needs more for such messages.
    behavior.compression =
        deflate ? uWS::CompressOptions(uWS::SHARED_COMPRESSOR | uWS::SHARED_DECOMPRESSOR)
                : uWS::DISABLED;
    behavior.maxPayloadLength = kLargest;
    behavior.maxBackpressure = kLargest;
    behavior.idleTimeout = 0;
    behavior.sendPingsAutomatically = false;
    behavior.message = [deflate](auto* socket, std::string_view message, uWS::OpCode kind) {
        socket->send(message, kind, deflate);
    };
    return behavior;
}

} // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    uWS::App app;
    uWS::App::WebSocketBehavior<Nothing> behavior = echo(mode == "deflate");
    if (mode == "publish") {
        behavior.open = [](auto* socket) { socket->subscribe("all"); };
        // The app's own `publish` would need the app, which moves. That of a socket leaves it out.
        behavior.message = [](auto* socket, std::string_view message, uWS::OpCode kind) {
            socket->publish("all", message, kind, false);
            socket->send(message, kind, false);
        };
    }
    app.ws<Nothing>("/*", std::move(behavior));
    return bench::run_until_stdin_ends(std::move(app), argv[0]);
}
