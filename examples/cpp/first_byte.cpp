// A server and its client in one program, over TCP: the start page of the C++ library.

#include <penstock/penstock.hpp>

#include <cstdio>

using namespace penstock;

static Task<Result<>> serve(net::TcpListener& listener) {
    net::TcpStream client = co_await unwrap(listener.accept());
    const Chunk chunk = co_await unwrap(client.receive());
    co_return co_await client.write_all(chunk);
}

static Task<Result<>> ask(net::Endpoint server) {
    net::TcpStream stream = co_await unwrap(net::TcpStream::connect(server));
    co_await unwrap(stream.write_all("first byte\n"));
    const Chunk answer = co_await unwrap(stream.receive());
    std::fwrite(answer.data(), 1, answer.size(), stdout);
    co_return Result<>();
}

static Task<Result<>> echo() {
    net::TcpListener listener =
        co_await unwrap(net::TcpListener::listen(net::Endpoint::loopback(0)));
    const auto ended = co_await all(serve(listener), ask(*listener.local_endpoint()));
    co_return ended ? Result<>() : failure(ended.error());
}

int main() {
    return run(echo()) ? 0 : 1;
}
