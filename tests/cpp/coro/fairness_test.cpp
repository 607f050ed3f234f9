// How long a load delays a descriptor, counted in steps of the load. A loop that polls in every
// iteration, and gives each ready task one step in it, handles an event after one step of each task
// that is ready.

#include <penstock/penstock.hpp>

#include <array>
#include <chrono>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/support/steps_before_an_event.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::listen_on_loopback;
using penstock::testing::Load;
using penstock::testing::StepsBeforeAnEvent;
using penstock::testing::TcpPair;
using penstock::testing::TemporaryFolder;

constexpr int many = 20;

Task<> yielding(StepsBeforeAnEvent& steps) {
    while (!steps.done()) {
        steps.step();
        expect(co_await yield());
    }
}

Task<> many_yielding(StepsBeforeAnEvent& steps) {
    (void)co_await with_scope([&](Scope& scope) -> Task<> {
        for (int i = 0; i < many; ++i) {
            scope.spawn(yielding(steps));
        }
        co_return;
    });
}

Task<> sleeping_for_no_time(StepsBeforeAnEvent& steps) {
    while (!steps.done()) {
        steps.step();
        expect(co_await sleep_for(0s));
    }
}

Task<> posting(StepsBeforeAnEvent& steps) {
    EventLoop& loop = EventLoop::current();
    sync::Event ended;
    std::function<void()> again = [&] {
        if (steps.done()) {
            ended.set();
            return;
        }
        steps.step();
        loop.post([&] { again(); });
    };
    loop.post([&] { again(); });
    expect(co_await ended.wait());
}

Task<> locking(StepsBeforeAnEvent& steps) {
    sync::Mutex mutex;
    while (!steps.done()) {
        const auto guard = co_await mutex.lock();
        steps.step();
    }
}

Task<> passing_through_a_channel(StepsBeforeAnEvent& steps) {
    Channel<int> channel(1);
    while (!steps.done()) {
        expect(co_await channel.send(1));
        expect(co_await channel.receive());
        steps.step();
    }
}

Task<> reading_buffered_lines(StepsBeforeAnEvent& steps) {
    PipeEnds pipe = expect(make_pipe());
    std::string text;
    for (int i = 0; i < 1000; ++i) {
        text += "line\n";
    }
    expect(co_await pipe.writer.write_all(text));
    BufReader reader(pipe.reader, text.size() * 2);
    while (!steps.done()) {
        EXPECT_EQ(expect(co_await reader.line()), "line");
        steps.step();
    }
}

Task<> reading_what_is_always_there(StepsBeforeAnEvent& steps) {
    PipeEnds pipe = expect(make_pipe());
    expect(co_await pipe.writer.write_all(std::string(1000, 'x')));
    std::array<char, 1> letter{};
    while (!steps.done()) {
        expect(co_await pipe.reader.read(letter));
        steps.step();
    }
}

/// Each of the two tasks makes the other's data ready.
Task<> playing_ping_pong(StepsBeforeAnEvent& steps) {
    TcpPair pair = co_await connect_pair();
    const auto player = [&](net::TcpStream& stream) -> Task<> {
        std::array<char, 1> ball{};
        while (expect(co_await stream.read(ball)) == 1) {
            steps.step();
            if (steps.done()) {
                expect(stream.shutdown());
                co_return;
            }
            expect(co_await stream.write_all(ball));
        }
        expect(stream.shutdown());
    };
    expect(co_await pair.near.write_all("o"));
    co_await all(player(pair.near), player(pair.far));
}

Task<> accepting(StepsBeforeAnEvent& steps) {
    net::TcpListener listener = listen_on_loopback();
    const net::Endpoint endpoint = expect(listener.local_endpoint());
    std::vector<net::TcpStream> clients;
    const auto connect_another = [&]() -> Task<> {
        clients.push_back(expect(co_await net::TcpStream::connect(endpoint)));
    };
    for (int i = 0; i < many; ++i) {
        co_await connect_another();
    }
    while (!steps.done()) {
        for (int i = 0; i < many && !steps.done(); ++i) {
            (void)expect(co_await listener.accept());
            steps.step();
        }
        clients.clear();
        for (int i = 0; i < many; ++i) {
            co_await connect_another();
        }
    }
}

Task<> receiving_datagrams(StepsBeforeAnEvent& steps) {
    net::UdpSocket receiver = expect(net::UdpSocket::bind(net::Endpoint::loopback(0)));
    net::UdpSocket sender = expect(net::UdpSocket::bind(net::Endpoint::loopback(0)));
    const net::Endpoint to = expect(receiver.local_endpoint());
    std::array<char, 10> buffer{};
    for (int i = 0; i < many; ++i) {
        expect(co_await sender.send_to("x", to));
    }
    while (!steps.done()) {
        (void)expect(co_await receiver.receive(buffer));
        expect(co_await sender.send_to("x", to));
        steps.step();
    }
}

Task<> reading_a_cached_file(StepsBeforeAnEvent& steps) {
    const TemporaryFolder folder;
    fs::File file = expect(co_await fs::File::open(folder.file("file", std::string(1000, 'x'))));
    std::array<char, 1> letter{};
    while (!steps.done()) {
        expect(co_await file.read_at(0, letter));
        steps.step();
    }
}

struct Case {
    const char* name;
    Task<> (*load)(StepsBeforeAnEvent&);
    int most; ///< the tasks that are ready at the same time

    friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

class Fairness : public ::testing::TestWithParam<Case> {};

TEST_P(Fairness, AnEventWaitsForOneStepOfEachReadyTask) {
    penstock::testing::expect_steps_before_an_event(GetParam().name, GetParam().load,
                                                    GetParam().most);
}

INSTANTIATE_TEST_SUITE_P(
    Loads, Fairness,
    ::testing::Values(Case{"yielding", &yielding, 1}, Case{"many_yielding", &many_yielding, many},
                      Case{"sleeping_for_no_time", &sleeping_for_no_time, 1},
                      Case{"posting", &posting, 1}, Case{"locking", &locking, 1},
                      Case{"passing_through_a_channel", &passing_through_a_channel, 1},
                      Case{"reading_buffered_lines", &reading_buffered_lines, 1},
                      Case{"reading_what_is_always_there", &reading_what_is_always_there, 1},
                      Case{"playing_ping_pong", &playing_ping_pong, 2},
                      Case{"accepting", &accepting, 2},
                      Case{"receiving_datagrams", &receiving_datagrams, 2},
                      Case{"reading_a_cached_file", &reading_a_cached_file, 1}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

} // namespace
