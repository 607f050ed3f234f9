// A chat server: each guest receives the lines of the other guests. Every guest has a channel, and
// one task sends its lines to the connection. A slow reader therefore does not delay the others. A
// guest that does not read at all misses lines. After SIGINT or SIGTERM, guests get what waits for
// them, at most for five seconds.
//
//     chat [PORT]

#include <penstock/penstock.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

using namespace penstock;
using namespace std::chrono_literals;

namespace {

// All receivers share one line.
using Line = std::shared_ptr<const std::string>;

class Room {
public:
    class Guest {
    public:
        explicit Guest(Room& room)
            : room_(room), channel_(room.guests_.emplace(room.guests_.end(), most_lines)) {
            if (room.closed_) {
                channel_->close();
            }
        }
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

    /// Ends the lines of all guests, even of those who come later.
    void close() noexcept {
        closed_ = true;
        for (Channel<Line>& lines : guests_) {
            lines.close();
        }
    }

private:
    std::list<Channel<Line>> guests_;
    bool closed_ = false;
};

// Until the channel is closed and empty.
Task<Result<>> send_lines(net::TcpStream& stream, Channel<Line>& lines) {
    while (const Result<Line> line = co_await lines.receive()) {
        // Lines that are already queued are sent together.
        std::string text = **line;
        while (const std::optional<Line> another = lines.try_receive()) {
            text += **another;
        }
        co_await unwrap(stream.write_all(text));
    }
    co_return Result<>();
}

Task<Result<>> receive_lines(net::TcpStream& stream, Room::Guest& guest) {
    BufReader reader(stream);
    const std::optional<std::string_view> name = co_await unwrap(reader.line());
    if (!name) {
        co_return Result<>();
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
    // `race` cancels the task that sends when the guest leaves, and the one that receives when all
    // lines of a closed room are sent.
    (void)co_await race(receive_lines(stream, guest), send_lines(stream, guest.lines()));
}

Task<Result<>> accept_all(net::TcpListener& listener, Room& room, Scope& guests) {
    for (;;) {
        guests.spawn(serve_guest(co_await unwrap(listener.accept()), room));
    }
}

Task<Result<>> chat(net::Endpoint endpoint) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    Signal stop = co_await unwrap(Signal::on({SIGINT, SIGTERM}));
    net::TcpListener listener = co_await unwrap(net::TcpListener::listen(endpoint));
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    Room room;
    co_return co_await with_scope([&](Scope& guests) -> Task<Result<>> {
        const auto first = co_await race(accept_all(listener, room, guests), stop.wait());
        if (first.index() == 0) {
            co_return std::get<0>(first);
        }
        listener.close();
        room.close();
        (void)co_await guests.drain(5s); // then it cancels those that have not read their lines
        co_return Result<>();
    });
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
