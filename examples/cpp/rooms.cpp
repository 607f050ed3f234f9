// A chat in rooms for very many guests: ws://127.0.0.1:PORT/ROOM. Whoever has come to a room gets
// what is said there. A guest who says nothing costs about 600 bytes, because his handler is a set
// of functions, and no coroutine. One who reads too slowly misses the oldest messages.
//
//     rooms serve [PORT]
//     rooms visit URL GUESTS    so many guests come; one speaks, and all must hear it
//
// For 10,000 guests, allow each of the two as many files: ulimit -n 20000.

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace penstock;
using namespace std::chrono_literals;

namespace {

class Guest {
public:
    explicit Guest(ws::Topics& topics) : topics_(topics) {}

    void on_open(ws::CallbackSocket& socket) {
        room_ = socket.target();
        socket.subscribe(topics_, room_);
    }
    void on_message(ws::CallbackSocket& socket, const ws::Message& message) {
        if (message.is_text()) {
            topics_.publish(room_, message.text());
        } else {
            socket.close(ws::close_code::unsupported_data, "a chat is text");
        }
    }

private:
    ws::Topics& topics_;
    std::string room_;
};

Task<Result<>> serve(std::uint16_t port) {
    ws::Topics topics;
    ws::Server server = co_await unwrap(ws::Server::listen(
        net::Endpoint::loopback(port), {.accept = {.limits = {.message = 4096}}}));
    std::printf("listening on %s\n", server.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    const ws::Callbacks guests([&] { return Guest(topics); },
                               {.slow_reader = ws::SlowReader::drop_oldest});
    co_await unwrap(until_signal(server.serve(guests), [&server] {
        std::puts("stopping");
        server.shutdown(5s);
    }));
    std::puts("stopped");
    co_return Result<>();
}

Task<Result<>> hear(ws::WebSocket& guest, std::string_view wanted) {
    std::string heard;
    while (heard != wanted) {
        heard = (co_await unwrap(guest.receive())).text();
    }
    co_return Result<>();
}

Task<Result<>> visit(std::string url, std::size_t count) {
    std::vector<ws::WebSocket> guests;
    while (guests.size() < count) {
        guests.push_back(co_await unwrap(ws::WebSocket::connect(url)));
    }
    const auto begin = std::chrono::steady_clock::now();
    co_await unwrap(guests.front().send_text("hello"));
    for (ws::WebSocket& guest : guests) {
        co_await unwrap(hear(guest, "hello"));
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    std::printf("%zu guests have heard it after %.1f ms\n", count, took.count());
    co_return Result<>();
}

} // namespace

int main(int count, char** arguments) {
    const std::vector<std::string_view> words(arguments + 1, arguments + count);
    const auto number = [&](std::size_t index) {
        unsigned value = 0;
        if (index < words.size()) {
            std::from_chars(words[index].data(), words[index].data() + words[index].size(), value);
        }
        return value;
    };
    const bool serves = !words.empty() && words[0] == "serve";
    if (!serves && (words.size() != 3 || words[0] != "visit" || number(2) == 0)) {
        std::fputs("usage: rooms serve [PORT] | rooms visit URL GUESTS\n", stderr);
        return 2;
    }
    const Result<> ended = run(serves ? serve(static_cast<std::uint16_t>(number(1)))
                                      : visit(std::string(words[1]), number(2)));
    if (!ended) {
        std::fprintf(stderr, "rooms: %s\n", ended.error().message().c_str());
        return 1;
    }
}
