// The server of the WebSocket page with penstock::penstock.
//
//     websocket_penstock [deflate]

#include "job.hpp"
#include "standard_input_penstock.hpp"

#include <string_view>
#include <system_error>

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

namespace {

namespace ws = penstock::ws;
using penstock::Result;
using penstock::Scope;
using penstock::Task;

Task<Result<>> echo(ws::WebSocket& socket) {
    while (const Result<ws::Message> message = co_await socket.receive()) {
        if (const Result<> sent = co_await socket.send(*message); !sent) {
            co_return sent;
        }
    }
    co_return Result<>();
}

Task<Result<>> serve(bool deflate) {
    ws::ServerOptions options;
    if (deflate) {
        options.accept.compression = ws::deflate();
    }
    Result<ws::Server> server =
        ws::Server::listen(penstock::net::Endpoint::loopback(0), std::move(options));
    if (!server) {
        co_return penstock::failure(server.error());
    }
    co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
        const bench::StandardInput input(scope);
        bench::report_port(server->local_endpoint()->port());
        co_return co_await server->serve(echo);
    });
}

} // namespace

int main(int argc, char** argv) {
    if (const Result<> served =
            penstock::run(serve(argc > 1 && std::string_view(argv[1]) == "deflate"));
        !served) {
        std::fprintf(stderr, "websocket_penstock: %s\n", served.error().message().c_str());
        return 1;
    }
}
