// Each allocation of a program fails once. The program gets an exception or an error, everything
// that it started ends, and no descriptor leaks.

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include "coro/support/destroyed_child.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/descriptors.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// the sanitizer's runtime defines it, and the linker allows no second definition
#define PENSTOCK_OPERATOR_NEW_IS_TAKEN
#endif
#endif

namespace {

/// This thread's allocations until the one that fails. Negative: none fails.
thread_local long until_failure = -1;

[[maybe_unused]] void fail_if_due() {
    if (until_failure < 0) {
        return;
    }
    --until_failure;
    if (until_failure < 0) {
        throw std::bad_alloc();
    }
}

} // namespace

#ifndef PENSTOCK_OPERATOR_NEW_IS_TAKEN
void* operator new(std::size_t size) {
    fail_if_due();
    if (void* memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t /*size*/) noexcept {
    std::free(memory);
}
#endif

namespace {

using namespace std::chrono_literals;
using penstock::Channel;
using penstock::Chunk;
using penstock::EventLoop;
using penstock::OwnedDescriptor;
using penstock::Result;
using penstock::Scope;
using penstock::Task;
using penstock::testing::expect;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;
namespace fs = penstock::fs;
namespace net = penstock::net;
namespace process = penstock::process;

std::size_t open_descriptors() {
    std::size_t count = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    return count;
}

bool is_want_of_memory(const std::error_code& error) {
    return error == std::errc::not_enough_memory ||
           error == std::errc::resource_unavailable_try_again || // no thread could be started
           error == std::errc::operation_canceled;               // another task had no memory
}

/// Waits for the ends of all children, whose objects are destroyed.
bool are_children_reaped() {
    siginfo_t ended{};
    while (::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0) {
        if (!penstock::testing::is_reaped(ended.si_pid)) {
            return false;
        }
    }
    return true;
}

/// Runs a program repeatedly. The first, then the second, ... allocation fails, until none is left.
/// Allocations of other threads never fail.
void run_short_of_memory(const std::function<Task<>()>& program) {
#ifdef PENSTOCK_OPERATOR_NEW_IS_TAKEN
    GTEST_SKIP() << "ThreadSanitizer takes operator new";
#endif
    const Watchdog watchdog(110);
    bool was_short = true;
    for (long n = -1; was_short; ++n) { // the first run, with memory, creates what stays
        const std::size_t before = open_descriptors();
        until_failure = n;
        std::optional<std::error_code> reason;
        try {
            EventLoop loop;
            loop.run(program());
        } catch (const std::bad_alloc&) {
            reason = std::make_error_code(std::errc::not_enough_memory);
        } catch (const std::system_error& error) {
            reason = error.code();
        }
        was_short = until_failure < 0;
        until_failure = -1;
        EXPECT_TRUE(!reason || (n >= 0 && was_short && is_want_of_memory(*reason)))
            << "allocation " << n << ": " << reason.value_or(std::error_code()).message();
        ASSERT_TRUE(are_children_reaped()) << "allocation " << n;
        if (n >= 0) {
            ASSERT_EQ(open_descriptors(), before) << "allocation " << n;
        }
    }
}

Task<> echo(net::TcpStream stream) {
    for (;;) {
        const Result<Chunk> chunk = co_await stream.receive();
        if (!chunk || chunk->empty() || !co_await stream.write_all(*chunk)) {
            co_return;
        }
    }
}

TEST(OutOfMemory, AServerAndItsClient) {
    run_short_of_memory([]() -> Task<> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        expect(co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
            net::TcpStream client =
                expect(co_await net::TcpStream::connect(expect(listener.local_endpoint())));
            scope.spawn(echo(expect(co_await listener.accept())));
            expect(co_await client.write_all("question"));
            std::array<char, 8> answer{};
            expect(co_await penstock::timeout(1h, client.read_exactly(answer)));
            client.close();
            co_return Result<>();
        }));
    });
}

Task<Result<>> echo(penstock::ws::WebSocket& socket) {
    for (;;) {
        const Result<penstock::ws::Message> message = co_await socket.receive();
        if (!message) {
            co_return message.error() == penstock::ws::Error::closed
                ? Result<>()
                : penstock::failure(message.error());
        }
        co_await penstock::unwrap(socket.send(*message));
    }
}

TEST(OutOfMemory, AWebSocketAndItsClient) {
    run_short_of_memory([]() -> Task<> {
        using penstock::unwrap;
        using penstock::ws::WebSocket;
        auto [near, far] = co_await penstock::testing::connect_pair();
        auto [client, server] = expect(co_await penstock::all(
            WebSocket::connect(penstock::AnyStream(std::move(near)), "h", "/"),
            WebSocket::accept(penstock::AnyStream(std::move(far)))));
        const auto ask = [&]() -> Task<Result<>> {
            co_await unwrap(client.send_text("question"));
            EXPECT_EQ((co_await unwrap(client.receive())).text(), "question");
            co_await unwrap(client.ping("p"));
            auto parts = co_await unwrap(client.begin_text());
            co_await unwrap(parts.write("in "));
            co_await unwrap(parts.finish("parts"));
            EXPECT_EQ((co_await unwrap(client.receive())).text(), "in parts");
            co_return co_await client.close();
        };
        expect(co_await penstock::all(echo(server), ask()));
    });
}

struct Guest {
    void on_message(penstock::ws::CallbackSocket& socket,
                    const penstock::ws::Message& message) const {
        socket.send(message);
        if (message.text() == "much") { // more than the kernel takes
            const std::string large(1 << 20, 'x');
            while (socket.send_text(large) == penstock::ws::Sent::now) {
            }
            socket.send_text("and more");
        }
    }
    void on_drain(penstock::ws::CallbackSocket& socket) const { socket.close(4000); }
    void on_close(penstock::ws::CallbackSocket& /*socket*/, std::uint16_t /*code*/,
                  std::string_view /*reason*/) const {}
};

/// Without memory a connection ends, and the client reads that.
Result<penstock::ws::Message> or_no_memory(Result<penstock::ws::Message> received) {
    return received ? received : penstock::failure(std::errc::not_enough_memory);
}

TEST(OutOfMemory, AServerOfFunctionsAndItsClient) {
    run_short_of_memory([]() -> Task<> {
        using penstock::unwrap;
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const std::string url = "ws://" + expect(listener.local_endpoint()).to_string() + "/";
        penstock::ws::Server server(std::move(listener),
                                    {.accept = {.limits = {.close = 10ms}},
                                     .on_exception = [](const std::exception_ptr& /*thrown*/) {}});
        const auto talk = [&]() -> Task<Result<>> {
            Result<penstock::ws::WebSocket> client = co_await penstock::ws::WebSocket::connect(url);
            if (!client) {
                co_return penstock::failure(std::errc::not_enough_memory);
            }
            for (const std::string_view text : {"one", "much"}) {
                co_await unwrap(client->send_text(text));
                EXPECT_EQ((co_await unwrap(or_no_memory(co_await client->receive()))).text(), text);
            }
            std::string last;
            while (last != "and more") {
                last = (co_await unwrap(or_no_memory(co_await client->receive()))).text();
            }
            (void)co_await client->receive(); // the close frame
            server.shutdown(0s);
            co_return Result<>();
        };
        expect(co_await penstock::all(server.serve(penstock::ws::Callbacks([] { return Guest(); })),
                                      talk()));
    });
}

TEST(OutOfMemory, AWebSocketKeepsItsInputWithoutMemoryForACopy) {
    penstock::ws::detail::Connection connection(penstock::codec::websocket::Role::server, {});
    connection.bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
    connection.rest = std::span(connection.bytes).subspan(1);
    until_failure = 0;
    connection.park_input();
    until_failure = -1;
    ASSERT_EQ(connection.rest.size(), 2U);
    EXPECT_EQ(connection.rest.back(), std::byte{3});
}

Task<Result<int>> number(int value) {
    (void)co_await penstock::yield();
    co_return value;
}

TEST(OutOfMemory, ConcurrentTasks) {
    run_short_of_memory([]() -> Task<> {
        std::vector<Task<Result<int>>> tasks;
        tasks.push_back(number(1));
        tasks.push_back(number(2));
        EXPECT_EQ(expect(co_await penstock::all(std::move(tasks))).size(), 2U);
        (void)co_await penstock::race(number(1), penstock::sleep_for(1h));
        expect(co_await penstock::any(penstock::sleep_for(1h), number(2)));
        (void)co_await penstock::all_settled(number(1), number(2));
        expect(co_await penstock::shield(number(3)));
        penstock::Canceller canceller;
        expect(co_await penstock::cancellable(canceller, number(4)));
        EXPECT_FALSE(penstock::trace_tasks(EventLoop::current()).empty());
    });
}

TEST(OutOfMemory, ChannelsAndLocks) {
    run_short_of_memory([]() -> Task<> {
        Channel<std::vector<int>> channel(1);
        penstock::sync::Mutex mutex;
        penstock::sync::Condition changed;
        int sum = 0;
        const auto send = [&]() -> Task<Result<>> {
            for (int i = 0; i < 3; ++i) {
                expect(co_await channel.send({i}));
            }
            channel.close();
            co_return Result<>();
        };
        const auto receive = [&]() -> Task<Result<>> {
            while (const Result<std::vector<int>> value = co_await channel.receive()) {
                const auto guard = expect(co_await mutex.lock());
                sum += value->front();
                changed.notify_all();
            }
            co_return Result<>();
        };
        const auto wait = [&]() -> Task<Result<>> {
            auto guard = expect(co_await mutex.lock());
            co_return co_await changed.wait(guard, [&] { return sum == 3; });
        };
        expect(co_await penstock::all(send(), receive(), wait()));
    });
}

TEST(OutOfMemory, Files) {
    const TemporaryFolder folder;
    run_short_of_memory([&]() -> Task<> {
        const std::string path = folder.path("file");
        expect(co_await fs::write_file(path, "content", {.atomic = true}));
        EXPECT_EQ(expect(co_await fs::read_text(path)), "content");
        expect(co_await fs::copy_file(path, folder.path("copy")));
        EXPECT_GE(expect(co_await fs::read_directory(folder.path("."))).size(), 2U);
        fs::File file = expect(co_await fs::File::open(path));
        expect(co_await file.close());
    });
    if (IsSkipped()) {
        return;
    }
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("."))) {
        files += entry.is_regular_file() ? 1 : 0;
    }
    EXPECT_EQ(files, 2U) << "no temporary file is left";
}

TEST(OutOfMemory, Processes) {
    run_short_of_memory([]() -> Task<> {
        process::Child child = expect(process::Command("cat")
                                          .input(process::Stdio::pipe())
                                          .output(process::Stdio::pipe())
                                          .environment("NAME", "value")
                                          .kill_on_close()
                                          .spawn());
        expect(co_await child.input.write_all("text\n"));
        child.input.close();
        penstock::BufReader reader(child.output);
        EXPECT_EQ(expect(co_await reader.line()).value_or(""), "text");
        EXPECT_TRUE(expect(co_await child.wait()).success());
    });
}

TEST(OutOfMemory, DestroyingAChildLosesNoProcess) {
    const Watchdog watchdog;
    const auto sleeper = process::Command("sleep").argument("60").kill_on_close();
    for (int count = 0; count < 5; ++count) {
        std::vector<process::Child> children;
        for (int i = 0; i <= count; ++i) {
            children.push_back(expect(sleeper.spawn()));
        }
        while (!children.empty()) {
            until_failure = 0;
            children.pop_back();
            until_failure = -1;
        }
        ASSERT_TRUE(are_children_reaped());
    }
}

TEST(OutOfMemory, DatagramsDescriptorsAndSignals) {
    run_short_of_memory([]() -> Task<> {
        net::UdpSocket receiver = expect(net::UdpSocket::bind(net::Endpoint::loopback(0)));
        net::UdpSocket sender = expect(net::UdpSocket::bind(net::Endpoint::loopback(0)));
        expect(co_await sender.send_to("datagram", expect(receiver.local_endpoint())));
        net::DatagramBatch batch(4, 64);
        EXPECT_EQ(expect(co_await receiver.receive(batch)), 1U);

        auto [near, far] = expect(net::UnixStream::pair());
        const std::array<int, 1> passed{STDERR_FILENO};
        EXPECT_EQ(expect(co_await near.send("x", passed)), 1U);
        std::array<char, 1> byte{};
        std::vector<OwnedDescriptor> received;
        EXPECT_EQ(expect(co_await far.receive(byte, received)), 1U);
        EXPECT_EQ(received.size(), 1U);

        penstock::Signal signal = expect(penstock::Signal::on({SIGUSR1}));
        ::raise(SIGUSR1);
        EXPECT_EQ(expect(co_await signal.wait()), SIGUSR1);
        EXPECT_EQ(expect(co_await penstock::to_thread([] { return 5; })), 5);
    });
}

/// An awaitable of another library, which a posted function resumes.
struct Foreign {
    struct Resumption : penstock::io::Work {
        explicit Resumption(std::coroutine_handle<> handle) noexcept
            : Work(&run), waiting(handle) {}

        static void run(Work& work) { static_cast<Resumption&>(work).waiting.resume(); }

        std::coroutine_handle<> waiting;
    };

    std::optional<Resumption>& resumption;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const {
        EventLoop::current().post(resumption.emplace(waiting));
    }
    [[nodiscard]] int await_resume() const noexcept { return 7; }
};

TEST(OutOfMemory, BridgesToOtherLibraries) {
    run_short_of_memory([]() -> Task<> {
        std::optional<Foreign::Resumption> resumption;
        const auto awaits = [&]() -> Task<> {
            std::exception_ptr exception;
            try {
                EXPECT_EQ(co_await penstock::adapt(Foreign{resumption}), 7);
            } catch (const std::bad_alloc&) {
                exception = std::current_exception();
            }
            (void)co_await penstock::yield(); // the task can go on
            if (exception) {
                std::rethrow_exception(exception);
            }
        };
        (void)co_await penstock::race(awaits(), penstock::sleep_for(1h));
        auto [promise, future] = penstock::make_promise<std::string>();
        promise.set(std::string("a text that does not fit into the object itself"));
        EXPECT_FALSE(expect(co_await future.wait()).empty());
        const penstock::PipeEnds pipe = expect(penstock::make_pipe());
        expect(co_await penstock::wait_ready(pipe.writer.native_handle(), penstock::io::writable));
    });
}

penstock::AsyncGenerator<Result<int>> numbers(int count) {
    for (int i = 0; i < count; ++i) {
        co_yield co_await penstock::unwrap(number(i));
    }
    (void)co_await penstock::unwrap(Result<>(penstock::failure(std::errc::io_error)));
}

TEST(OutOfMemory, SequencesAndBoundedConcurrency) {
    run_short_of_memory([]() -> Task<> {
        int sum = 0;
        auto items = numbers(3);
        while (const std::optional<Result<int>> item = co_await items.next()) {
            sum += item->value_or(10);
        }
        EXPECT_EQ(sum, 13);
        const auto squares = [](int most) -> penstock::Generator<int> {
            for (int i = 0; i < most; ++i) {
                co_yield i* i;
            }
        };
        const std::vector<int> mapped = expect(co_await penstock::map_concurrent(
            squares(5), 2, [](int item) { return number(item); }));
        EXPECT_EQ(mapped, (std::vector<int>{0, 1, 4, 9, 16}));
        auto [sender, receiver] = penstock::make_channel<std::string>(1);
        const auto send = [](penstock::Sender<std::string> end) -> Task<Result<>> {
            auto jobs = std::move(end);
            for (int i = 0; i < 3; ++i) {
                co_await penstock::unwrap(jobs.send(std::string(100, 'x')));
            }
            co_return Result<>();
        };
        std::size_t size = 0;
        expect(co_await penstock::all(
            send(std::move(sender)),
            for_each_concurrent(std::move(receiver), 2, [&](const std::string& text) -> Task<> {
                (void)co_await penstock::yield();
                size += text.size();
            })));
        EXPECT_EQ(size, 300U);
    });
}

TEST(OutOfMemory, DeadlinesAndDraining) {
    run_short_of_memory([]() -> Task<> {
        expect(co_await penstock::with_scope([](Scope& scope) -> Task<Result<>> {
            scope.spawn(penstock::detail::to_task(penstock::sleep_for(1h)));
            const auto body = [&](penstock::Deadline& deadline) -> Task<Result<>> {
                deadline.expire_after(2h);
                deadline.expire_after(1h);
                co_return co_await penstock::yield();
            };
            expect(co_await penstock::with_deadline(3h, body));
            (void)co_await scope.drain(1ms);
            co_return Result<>();
        }));
        auto [near, far] = penstock::MemoryStream::pair(10);
        const auto write = [&]() -> Task<Result<>> {
            co_await penstock::unwrap(near.write_all("more than fits at once"));
            co_return near.shutdown();
        };
        auto [nothing, text] = expect(co_await penstock::all(write(), read_all_text(far)));
        EXPECT_EQ(text, "more than fits at once");
    });
}

TEST(OutOfMemory, TreesAndOutputs) {
    const TemporaryFolder parent;
    run_short_of_memory([&]() -> Task<> {
        fs::TemporaryDirectory folder =
            expect(co_await fs::TemporaryDirectory::create("p-", parent.path(".")));
        expect(co_await fs::create_directories(folder.path() + "/some/folders"));
        int seen = 0;
        auto entries = fs::walk(folder.path());
        while (const std::optional<Result<fs::WalkEntry>> entry = co_await entries.next()) {
            seen += expect(Result<fs::WalkEntry>(*entry)).path.empty() ? 0 : 1;
        }
        EXPECT_EQ(seen, 2);
        expect(co_await folder.remove());
        EXPECT_FALSE(expect(co_await process::Command("cat").output("input")).output.empty());
    });
    if (!IsSkipped()) {
        EXPECT_TRUE(std::filesystem::is_empty(parent.path("."))) << "no folder is left";
        EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
    }
}

} // namespace
