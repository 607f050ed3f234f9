// The server of the HTTP page with penstock::penstock.

#include "job.hpp"
#include "standard_input_penstock.hpp"

#include <cstdio>
#include <utility>

#include <penstock/http.hpp>
#include <penstock/penstock.hpp>

namespace {

namespace http = penstock::http;
using penstock::Result;
using penstock::Scope;
using penstock::Task;

Task<Result<>> serve() {
    http::Server server;
    server.get("/", [](http::Request&, http::Response& response) {
        response.header("Content-Type", "text/plain; charset=utf-8");
        response.body("Hello, world!");
    });
    Result<penstock::net::TcpListener> listener =
        penstock::net::TcpListener::listen(penstock::net::Endpoint::loopback(0));
    if (!listener) {
        co_return penstock::failure(listener.error());
    }
    co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
        const bench::StandardInput input(scope);
        bench::report_port(listener->local_endpoint()->port());
        co_return co_await server.serve(std::move(*listener));
    });
}

} // namespace

int main() {
    if (const Result<> served = penstock::run(serve()); !served) {
        std::fprintf(stderr, "http_penstock: %s\n", served.error().message().c_str());
        return 1;
    }
}
