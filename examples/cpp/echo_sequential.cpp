// Echo server, version 1: one connection at a time. The code reads like the protocol.
//
//     echo_sequential [PORT]        prints its address, serves three connections, and ends

#include <penstock/penstock.hpp>

#include <cstdio>
#include <cstdlib>

using namespace penstock;

namespace {

Task<Result<>> echo(net::TcpStream& stream) {
    for (;;) {
        const Result<Chunk> chunk = co_await stream.receive();
        if (!chunk || chunk->empty()) {
            co_return chunk ? Result<>() : failure(chunk.error());
        }
        if (const Result<> sent = co_await stream.write_all(*chunk); !sent) {
            co_return sent;
        }
    }
}

Task<Result<>> serve(net::Endpoint endpoint) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Result<net::TcpListener> listener = net::TcpListener::listen(endpoint);
    if (!listener) {
        co_return failure(listener.error());
    }
    std::printf("listening on %s\n", listener->local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    for (int connections = 0; connections < 3; ++connections) {
        Result<net::TcpStream> stream = co_await listener->accept();
        if (!stream) {
            co_return failure(stream.error());
        }
        // A broken connection does not stop the server.
        if (const Result<> echoed = co_await echo(*stream); !echoed) {
            std::printf("a connection broke: %s\n", echoed.error().message().c_str());
        }
    }
    co_return Result<>();
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 0);
    const Result<> served = run(serve(net::Endpoint::loopback(port)));
    if (!served) {
        std::fprintf(stderr, "echo_sequential: %s\n", served.error().message().c_str());
        return 1;
    }
}
