// The server of the HTTP page with uWebSockets, on its own event loop (epoll). It adds Date and
// Content-Length itself; the header with its own name is off, because the others have none.

#include "until_stdin_ends_uwebsockets.hpp"

#include <utility>

#include <App.h>

int main(int /*argc*/, char** argv) {
    uWS::Loop::get()->setSilent(true);
    uWS::App app;
    app.get("/", [](uWS::HttpResponse<false>* response, uWS::HttpRequest* /*request*/) {
        response->writeHeader("Content-Type", "text/plain; charset=utf-8");
        response->end("Hello, world!");
    });
    return bench::run_until_stdin_ends(std::move(app), argv[0]);
}
