// The WebSocket client of the C++ pages with penstock::penstock.

#include "message_run.hpp"

#include <span>
#include <string>
#include <system_error>

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

namespace {

namespace ws = penstock::ws;
using penstock::Result;
using penstock::Task;
using penstock::unwrap;

Task<Result<>> talk(bench::MessageOptions options) {
    ws::WebSocket socket = co_await unwrap(ws::WebSocket::connect(options.url()));
    bench::MessageRun run(options);
    bool more = true;
    while (more) {
        const std::string& message = run.next();
        if (options.text) {
            co_await unwrap(socket.send_text(message));
        } else {
            co_await unwrap(socket.send_binary(std::as_bytes(std::span(message))));
        }
        const ws::Message reply = co_await unwrap(socket.receive());
        more = reply.is_text() == options.text && run.take(reply.text());
    }
    co_return co_await socket.close();
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_messages(argc, argv, [](const bench::MessageOptions& options) {
        if (const Result<> talked = penstock::run(talk(options)); !talked) {
            throw std::system_error(talked.error());
        }
    });
}
