// HTTP server: a greeting, a stream of events, an upload, and the files of a folder. After SIGINT
// or SIGTERM it accepts no new connections, finishes the requests that run, at most for five
// seconds, and ends.
//
//     http_server [PORT [FOLDER]]
//
//     curl http://127.0.0.1:PORT/hello/world
//     curl -N http://127.0.0.1:PORT/count/5
//     curl -T some_file http://127.0.0.1:PORT/size
//     curl http://127.0.0.1:PORT/files/
//     curl --http2-prior-knowledge http://127.0.0.1:PORT/hello/world

#include <penstock/http.hpp>
#include <penstock/penstock.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace penstock;
using namespace std::chrono_literals;

namespace {

// What needs no waiting is a plain function.
void hello(http::Request& request, http::Response& response) {
    response.header("Content-Type", "text/plain; charset=utf-8");
    response.body("Hello, " + request.parameter("name") + "!\n");
}

// Piece by piece: each part is on its way before the next one is made.
Task<Result<>> count(http::Request& request, http::Response& response) {
    const int end = std::atoi(request.parameter("end").c_str());
    for (int i = 1; i <= end; ++i) {
        co_await unwrap(response.write_all(std::to_string(i) + "\n"));
        co_await unwrap(sleep_for(10ms));
    }
    co_return Result<>();
}

// The body is read piece by piece, so it may be larger than the memory.
Task<Result<>> size(http::Request& request, http::Response& response) {
    std::uint64_t bytes = 0;
    for (;;) {
        const Bytes part = co_await unwrap(request.receive());
        if (part.empty()) {
            response.body(std::to_string(bytes) + " bytes\n");
            co_return Result<>();
        }
        bytes += part.size();
    }
}

Task<Result<>> serve(std::uint16_t port, std::string folder) {
    http::ServerOptions options;
    options.http2 = true;
    http::Server server(options);
    server.get("/hello/{name}", hello);
    server.get("/count/{end}", count);
    server.put("/size", size, {.body_limit = std::uint64_t{1} << 40});
    co_await unwrap(server.files("/files", folder));
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
    const std::string folder = arguments_count > 2 ? arguments[2] : ".";
    if (const Result<> served = run(serve(port, folder)); !served) {
        std::fprintf(stderr, "http_server: %s\n", served.error().message().c_str());
        return 1;
    }
    std::printf("stopped\n");
}
