// A page that shows what a service does while it does it: numbers that change, by server-sent
// events. Open http://127.0.0.1:PORT/ in a browser, or read the events:
//
//     live_page [PORT]
//
//     curl -N http://127.0.0.1:PORT/events

#include <penstock/http.hpp>
#include <penstock/penstock.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace penstock;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view page = R"(<!DOCTYPE html>
<meta charset="utf-8"><title>Live</title>
<style>body { font: 2em system-ui; margin: 2em } output { font-weight: bold }</style>
<p>Memory: <output id="memory">?</output> KiB
<p>Listeners: <output id="listeners">?</output>
<script>
const events = new EventSource("/events");
for (const name of ["memory", "listeners"]) {
    events.addEventListener(name, event => document.getElementById(name).value = event.data);
}
</script>
)";

/// The memory of this process, as the kernel counts it (proc(5)).
long memory_in_kib() {
    long pages = 0;
    long resident = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
        if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) {
            resident = 0;
        }
        std::fclose(file);
    }
    constexpr long page_in_kib = 4;
    return resident * page_in_kib;
}

/// Tells one listener until it goes: its task is cancelled then.
Task<Result<>> tell(http::EventStream& events, int& listeners) {
    struct Listener {
        int& count;
        explicit Listener(int& all) : count(all) { ++count; }
        ~Listener() { --count; }
        Listener(const Listener&) = delete;
        Listener& operator=(const Listener&) = delete;
    };
    const Listener listener(listeners);
    for (;;) {
        co_await unwrap(events.send(
            {.data = std::to_string(memory_in_kib()), .event = "memory", .retry = 1000ms}));
        co_await unwrap(events.send({.data = std::to_string(listeners), .event = "listeners"}));
        co_await unwrap(sleep_for(500ms));
    }
}

Task<Result<>> serve(std::uint16_t port) {
    int listeners = 0;
    http::Server server;
    server.get("/", [](http::Request&, http::Response& response) {
        response.header("Content-Type", "text/html; charset=utf-8");
        response.body(page);
    });
    server.get("/events", http::event_stream([&listeners](http::EventStream& events) {
                   return tell(events, listeners);
               }));
    auto listener = co_await unwrap(net::TcpListener::listen(net::Endpoint::loopback(port)));
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    co_return co_await until_signal(server.serve(std::move(listener)), [&server] {
        std::puts("stopping");
        std::fflush(stdout);
        server.stop(0s); // listeners come again by themselves
    });
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 8000);
    if (const Result<> served = run(serve(port)); !served) {
        std::fprintf(stderr, "live_page: %s\n", served.error().message().c_str());
        return 1;
    }
    std::puts("stopped");
}
