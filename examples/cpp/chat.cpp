// A chat server: each guest receives the lines of the other guests. Every guest has a channel, and
// one task sends its lines to the connection. A slow reader therefore does not delay the others. A
// guest that does not read at all misses lines.
//
//     chat [PORT]                   runs until SIGINT or SIGTERM

#include <penstock/penstock.hpp>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

using namespace penstock;

namespace {

// All receivers share one line.
using Line = std::shared_ptr<const std::string>;

class Room {
public:
    class Guest {
    public:
        explicit Guest(Room& room)
            : room_(room), channel_(room.guests_.emplace(room.guests_.end(), most_lines)) {}
        ~Guest() { room_.guests_.erase(channel_); }
        Guest(const Guest&) = delete;
        Guest& operator=(const Guest&) = delete;

        Channel<Line>& lines() noexcept { return *channel_; }

        void say(std::string text) {
            const auto line = std::make_shared<const std::string>(std::move(text));
            for (Channel<Line>& other : room_.guests_) {
                Line copy = line;
                if (&other != &*channel_) {
                    (void)other.try_send(copy); // full: this guest misses the line
                }
            }
        }

    private:
        /// The maximum number of lines that a guest may lag behind.
        static constexpr std::size_t most_lines = 256;

        Room& room_;
        std::list<Channel<Line>>::iterator channel_;
    };

private:
    std::list<Channel<Line>> guests_;
};

Task<Result<>> send_lines(net::TcpStream& stream, Channel<Line>& lines) {
    while (const Result<Line> line = co_await lines.receive()) {
        // Lines that are already queued are sent together.
        std::string text = **line;
        while (const std::optional<Line> another = lines.try_receive()) {
            text += **another;
        }
        if (const Result<> sent = co_await stream.write_all(text); !sent) {
            co_return sent;
        }
    }
    co_return Result<>();
}

Task<Result<>> receive_lines(net::TcpStream& stream, Room::Guest& guest) {
    BufReader reader(stream);
    const auto first = co_await reader.line();
    const std::optional<std::string_view> name = first.value_or(std::nullopt);
    if (!name) {
        co_return first ? Result<>() : failure(first.error());
    }
    const std::string who(*name);
    guest.say(who + " has joined\n");
    for (;;) {
        const auto line = co_await reader.line();
        const std::optional<std::string_view> text = line.value_or(std::nullopt);
        if (!text) {
            guest.say(who + " has left\n");
            co_return line ? Result<>() : failure(line.error());
        }
        guest.say(who + ": " + std::string(*text) + "\n");
    }
}

Task<void> serve_guest(net::TcpStream stream, Room& room) {
    Room::Guest guest(room);
    // When the guest leaves, `race` cancels the task that sends.
    (void)co_await race(receive_lines(stream, guest), send_lines(stream, guest.lines()));
}

Task<Result<>> serve(net::TcpListener& listener, Room& room) {
    co_return co_await with_scope([&](Scope& guests) -> Task<Result<>> {
        for (;;) {
            Result<net::TcpStream> stream = co_await listener.accept();
            if (!stream) {
                co_return failure(stream.error());
            }
            guests.spawn(serve_guest(std::move(*stream), room));
        }
    });
}

Task<Result<>> chat(net::Endpoint endpoint) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Result<Signal> stop = Signal::on({SIGINT, SIGTERM});
    if (!stop) {
        co_return failure(stop.error());
    }
    Result<net::TcpListener> listener = net::TcpListener::listen(endpoint);
    if (!listener) {
        co_return failure(listener.error());
    }
    std::printf("listening on %s\n", listener->local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    Room room;
    const auto first = co_await race(serve(*listener, room), stop->wait());
    co_return first.index() == 0 ? std::get<0>(first) : Result<>();
}

} // namespace

int main(int count, char** arguments) {
    const auto port = static_cast<std::uint16_t>(count > 1 ? std::atoi(arguments[1]) : 0);
    const Result<> ended = run(chat(net::Endpoint::loopback(port)));
    if (!ended) {
        std::fprintf(stderr, "chat: %s\n", ended.error().message().c_str());
        return 1;
    }
}
