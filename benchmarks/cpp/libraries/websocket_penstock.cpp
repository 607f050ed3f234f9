// The server of the WebSocket page with penstock::penstock.
//
//     websocket_penstock [deflate] [callbacks] [publish] [http]
//
// callbacks: its handler is a set of functions. publish: what is sent goes to all connections.
// http: it is a route of http::Server.

#include "job.hpp"
#include "standard_input_penstock.hpp"

#include <string_view>
#include <system_error>
#include <utility>

#include <penstock/http/server.hpp>
#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

namespace {

namespace ws = penstock::ws;
using penstock::Result;
using penstock::Scope;
using penstock::Task;

Task<Result<>> echo(ws::WebSocket& socket) {
    socket.forget_head();
    while (const Result<ws::Message> message = co_await socket.receive()) {
        if (const Result<> sent = co_await socket.send(*message); !sent) {
            co_return sent;
        }
    }
    co_return Result<>();
}

Task<Result<>> publish(ws::WebSocket& socket, ws::Subscriber& self) {
    socket.forget_head();
    self.subscribe("all");
    while (const Result<ws::Message> message = co_await socket.receive()) {
        self.topics().publish("all", message->text());
    }
    co_return Result<>();
}

struct Echo {
    static void on_message(ws::CallbackSocket& socket, const ws::Message& message) {
        socket.send(message);
    }
};

struct Publish {
    void on_open(ws::CallbackSocket& socket) const { socket.subscribe(*topics, "all"); }
    void on_message(ws::CallbackSocket& /*socket*/, const ws::Message& message) const {
        topics->publish("all", message.text());
    }

    ws::Topics* topics;
};

struct Modes {
    bool deflate = false;
    bool callbacks = false;
    bool publish = false;
    bool http = false;
};

Task<Result<>> serve_with(const Modes& modes, auto handler, ws::AcceptOptions accept) {
    Result<penstock::net::TcpListener> listener =
        penstock::net::TcpListener::listen(penstock::net::Endpoint::loopback(0));
    if (!listener) {
        co_return penstock::failure(listener.error());
    }
    bench::report_port(listener->local_endpoint()->port());
    if (modes.http) {
        penstock::http::Server server;
        server.upgrade("/", "websocket", ws::upgrade_handler(handler, std::move(accept)));
        co_return co_await server.serve(std::move(*listener));
    }
    ws::Server server(std::move(*listener), {.accept = std::move(accept)});
    co_return co_await server.serve(handler);
}

Task<Result<>> serve(Modes modes) {
    ws::AcceptOptions accept;
    if (modes.deflate) {
        accept.compression = ws::deflate();
    }
    if (modes.publish) {
        accept.limits.ping_interval = ws::Limits::no_time; // the load answers none
    }
    ws::Topics topics;
    co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
        const bench::StandardInput input(scope);
        if (modes.callbacks && modes.publish) {
            const ws::Callbacks handler([&] { return Publish{.topics = &topics}; });
            co_return co_await serve_with(modes, handler, std::move(accept));
        }
        if (modes.callbacks) {
            const ws::Callbacks handler([] { return Echo(); });
            co_return co_await serve_with(modes, handler, std::move(accept));
        }
        const ws::Handler handler =
            modes.publish ? ws::with_topics(topics, publish) : ws::Handler(echo);
        co_return co_await serve_with(modes, handler, std::move(accept));
    });
}

} // namespace

int main(int argc, char** argv) {
    Modes modes;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        modes.deflate |= word == "deflate";
        modes.callbacks |= word == "callbacks";
        modes.publish |= word == "publish";
        modes.http |= word == "http";
    }
    if (const Result<> served = penstock::run(serve(modes)); !served) {
        std::fprintf(stderr, "websocket_penstock: %s\n", served.error().message().c_str());
        return 1;
    }
}
