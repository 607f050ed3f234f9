// A chat server: what one guest says, all others hear. Each guest has a channel that one task empties into
// his connection, so a guest who reads slowly keeps nobody waiting; one who reads nothing at all misses
// lines.
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

// A line is shared by all who are to hear it.
using Line = std::shared_ptr<const std::string>;

class Room {
public:
    class Guest {
    public:
        explicit Guest(Room& room)
            : room_(room), place_(room.guests_.emplace(room.guests_.end(), most_lines)) {}
        ~Guest() { room_.guests_.erase(place_); }
        Guest(const Guest&) = delete;
        Guest& operator=(const Guest&) = delete;

        Channel<Line>& lines() noexcept { return *place_; }

        void say(std::string text) {
            const auto line = std::make_shared<const std::string>(std::move(text));
            for (Channel<Line>& other : room_.guests_) {
                Line copy = line;
                if (&other != &*place_) {
                    (void)other.try_send(copy); // full: he misses it
                }
            }
        }

    private:
        /// How far a guest may lag behind: as much as one who talks says in some turns.
        static constexpr std::size_t most_lines = 256;

        Room& room_;
        std::list<Channel<Line>>::iterator place_;
    };

private:
    std::list<Channel<Line>> guests_;
};

Task<Result<>> tell(net::TcpStream& stream, Channel<Line>& lines) {
    while (const Result<Line> line = co_await lines.receive()) {
        // All that has been said by now goes out together.
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

Task<Result<>> listen_to(net::TcpStream& stream, Room::Guest& guest) {
    BufReader reader(stream);
    const auto first = co_await reader.line();
    const std::optional<std::string_view> name = first.value_or(std::nullopt);
    if (!name) {
        co_return first ? Result<>() : failure(first.error());
    }
    const std::string who(*name);
    guest.say(who + " has come\n");
    for (;;) {
        const auto line = co_await reader.line();
        const std::optional<std::string_view> text = line.value_or(std::nullopt);
        if (!text) {
            guest.say(who + " has gone\n");
            co_return line ? Result<>() : failure(line.error());
        }
        guest.say(who + ": " + std::string(*text) + "\n");
    }
}

Task<void> entertain(net::TcpStream stream, Room& room) {
    Room::Guest guest(room);
    // When the guest goes, there is nobody to tell anything to.
    (void)co_await race(listen_to(stream, guest), tell(stream, guest.lines()));
}

Task<Result<>> serve(net::TcpListener& listener, Room& room) {
    co_return co_await with_scope([&](Scope& guests) -> Task<Result<>> {
        for (;;) {
            Result<net::TcpStream> stream = co_await listener.accept();
            if (!stream) {
                co_return failure(stream.error());
            }
            guests.spawn(entertain(std::move(*stream), room));
        }
    });
}

Task<Result<>> chat(net::Endpoint endpoint) {
    const TraceOnSignal trace; // Ctrl-\ prints which task waits where
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
