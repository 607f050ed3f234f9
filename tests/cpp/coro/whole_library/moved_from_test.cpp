// The rule for moves, for every public type that can be moved and owns something:
// penstock/detail/moved_from.hpp. A new type of this kind gets its lines here.

#include <penstock/codec/websocket/deflate.hpp>
#include <penstock/http/client.hpp>
#include <penstock/penstock.hpp>
#include <penstock/tls/context.hpp>
#include <penstock/tls/stream.hpp>
#include <penstock/ws.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "coro/http/running_server.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/tls/tls_test.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::listen_on_loopback;
using penstock::testing::TcpPair;
using penstock::testing::Watchdog;

template <typename T>
constexpr bool moves_without_exceptions =
    std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;

using TlsStream = tls::Stream<net::TcpStream>;

static_assert(
    moves_without_exceptions<Task<int>> && moves_without_exceptions<Generator<int>> &&
    moves_without_exceptions<AsyncGenerator<int>> && moves_without_exceptions<Promise<int>> &&
    moves_without_exceptions<Future<int>> && moves_without_exceptions<Sender<int>> &&
    moves_without_exceptions<Receiver<int>> && moves_without_exceptions<Chunk> &&
    moves_without_exceptions<OwnedDescriptor> && moves_without_exceptions<sync::Mutex::Guard> &&
    moves_without_exceptions<Signal> && moves_without_exceptions<MemoryStream> &&
    moves_without_exceptions<AnyStream> && moves_without_exceptions<PipeReader> &&
    moves_without_exceptions<PipeWriter> && moves_without_exceptions<net::TcpStream> &&
    moves_without_exceptions<net::TcpListener> && moves_without_exceptions<net::UnixStream> &&
    moves_without_exceptions<net::UnixListener> && moves_without_exceptions<net::UdpSocket> &&
    moves_without_exceptions<net::DatagramBatch> && moves_without_exceptions<fs::File> &&
    moves_without_exceptions<fs::TemporaryDirectory> && moves_without_exceptions<fs::Watch> &&
    moves_without_exceptions<fs::AppendLog> && moves_without_exceptions<process::Child> &&
    moves_without_exceptions<process::Terminal> && moves_without_exceptions<serial::Port> &&
    moves_without_exceptions<http::Client> && moves_without_exceptions<http::ClientResponse> &&
    moves_without_exceptions<tls::Context> && moves_without_exceptions<TlsStream> &&
    moves_without_exceptions<ws::WebSocket> && moves_without_exceptions<ws::Server>);

// A compressor without its window would be wrong silently.
static_assert(!std::is_move_constructible_v<codec::websocket::Inflater> &&
              !std::is_move_constructible_v<codec::websocket::Deflater>);

template <typename T> std::error_code error_of(const Result<T>& result) {
    return result ? std::error_code() : result.error();
}

/// The error that `use` gets from an object that was moved from, and that this object can be
/// assigned to and then works.
template <typename T, typename Use>
Task<std::error_code> error_after_move(T first, T second, Use use) {
    {
        const T taken(std::move(first));
    }
    // NOLINTNEXTLINE(bugprone-use-after-move): that is what this is about
    const std::error_code error = error_of(co_await use(first));
    first = std::move(second);
    const std::error_code after = error_of(co_await use(first));
    EXPECT_NE(after, error ? error : std::make_error_code(std::errc::bad_file_descriptor));
    co_return error;
}

constexpr std::errc bad_descriptor = std::errc::bad_file_descriptor;

TEST(MovedFrom, EndsOfChannelsAndPromisesAnswerAsClosedOnes) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [sender, receiver] = make_channel<int>(2);
        auto [other_sender, other_receiver] = make_channel<int>(2);
        EXPECT_TRUE(co_await other_sender.send(1));
        const auto receive = [](Receiver<int>& end) { return end.receive(); };
        EXPECT_EQ(
            co_await error_after_move(std::move(receiver), std::move(other_receiver), receive),
            Error::channel_closed);
        auto [third_sender, third_receiver] = make_channel<int>(2);
        const auto send = [](Sender<int>& end) { return end.send(1); };
        EXPECT_EQ(co_await error_after_move(std::move(sender), std::move(third_sender), send),
                  Error::channel_closed);
        // NOLINTBEGIN(bugprone-use-after-move)
        int value = 1;
        EXPECT_TRUE(sender.closed());
        EXPECT_FALSE(sender.try_send(value));
        sender.close();
        EXPECT_TRUE(receiver.closed());
        EXPECT_FALSE(receiver.try_receive());
        receiver.close();
        const Sender<int> copy = sender;
        EXPECT_TRUE(copy.closed());

        auto [promise, future] = make_promise<int>();
        auto [other_promise, other_future] = make_promise<int>();
        other_promise.set(3);
        const auto wait = [](Future<int>& end) { return end.wait(); };
        EXPECT_EQ(co_await error_after_move(std::move(future), std::move(other_future), wait),
                  Error::broken_promise);
        EXPECT_TRUE(future.is_ready());
        EXPECT_EQ((co_await future.wait()).error(), Error::broken_promise); // every time
        const Promise<int> taken = std::move(promise);
        EXPECT_DEATH(promise.set(1), "a Promise was used after it was moved from");
        // NOLINTEND(bugprone-use-after-move)
    };
    run(program());
}

TEST(MovedFrom, DescriptorsAnswerAsClosedOnes) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const penstock::testing::TemporaryFolder folder;
        std::array<std::byte, 4> bytes{};
        const auto read = [&](auto& stream) { return stream.read(bytes); };
        const auto write = [](auto& stream) { return stream.write_all("x"); };
        const auto filled = [](TcpPair pair) -> Task<net::TcpStream> {
            EXPECT_TRUE(co_await pair.far.write_all("x"));
            co_return std::move(pair.near);
        };
        EXPECT_EQ(co_await error_after_move((co_await connect_pair()).near,
                                            co_await filled(co_await connect_pair()), read),
                  bad_descriptor);
        EXPECT_EQ(co_await error_after_move(AnyStream((co_await connect_pair()).near),
                                            AnyStream(co_await filled(co_await connect_pair())),
                                            read),
                  bad_descriptor);
        EXPECT_EQ(co_await error_after_move(BufReader((co_await connect_pair()).near),
                                            BufReader(co_await filled(co_await connect_pair())),
                                            read),
                  bad_descriptor);

        const auto local = [](auto& listener) -> Task<Result<>> {
            const auto endpoint = listener.local_endpoint();
            co_return endpoint ? Result<>() : failure(endpoint.error());
        };
        EXPECT_EQ(co_await error_after_move(listen_on_loopback(), listen_on_loopback(), local),
                  bad_descriptor);
        const auto accept = [](auto& listener) { return timeout(1ms, listener.accept()); };
        EXPECT_EQ(co_await error_after_move(listen_on_loopback(), listen_on_loopback(), accept),
                  bad_descriptor);
        const auto unix_listener = [&](const char* name) {
            return expect(
                net::UnixListener::listen(expect(net::UnixEndpoint::path(folder.path(name)))));
        };
        EXPECT_EQ(co_await error_after_move(unix_listener("a"), unix_listener("b"), accept),
                  bad_descriptor);
        const auto unix_stream = [] {
            auto both = expect(net::UnixStream::pair());
            return std::move(both.first);
        };
        EXPECT_EQ(co_await error_after_move(unix_stream(), unix_stream(), read), bad_descriptor);
        const auto udp = [] { return expect(net::UdpSocket::bind(net::Endpoint::loopback(0))); };
        const auto receive = [&](net::UdpSocket& socket) {
            return timeout(1ms, socket.receive(bytes));
        };
        EXPECT_EQ(co_await error_after_move(udp(), udp(), receive), bad_descriptor);

        net::UdpSocket socket = udp();
        const auto to_batch = [&](net::DatagramBatch& batch) {
            return timeout(1ms, socket.receive(batch));
        };
        EXPECT_TRUE(co_await net::UdpSocket(udp()).send_to("x", expect(socket.local_endpoint())));
        EXPECT_EQ(
            co_await error_after_move(net::DatagramBatch(1, 1), net::DatagramBatch(1, 1), to_batch),
            std::errc::invalid_argument);

        const auto pipe_reader = [] { return expect(make_pipe()).reader; };
        const auto pipe_writer = [] { return expect(make_pipe()).writer; };
        EXPECT_EQ(co_await error_after_move(pipe_reader(), pipe_reader(), read), bad_descriptor);
        EXPECT_EQ(co_await error_after_move(pipe_writer(), pipe_writer(), write), bad_descriptor);

        const std::string path = folder.file("file", "text");
        EXPECT_EQ(co_await error_after_move(expect(co_await fs::File::open(path)),
                                            expect(co_await fs::File::open(path)), read),
                  bad_descriptor);
        // There is nothing to remove.
        const auto remove = [](fs::TemporaryDirectory& temporary) { return temporary.remove(); };
        EXPECT_FALSE(co_await error_after_move(
            expect(co_await fs::TemporaryDirectory::create("a", folder.path("."))),
            expect(co_await fs::TemporaryDirectory::create("b", folder.path("."))), remove));

        const auto wait = [](Signal& signal) { return timeout(1ms, signal.wait()); };
        EXPECT_EQ(co_await error_after_move(expect(Signal::on({SIGUSR1})),
                                            expect(Signal::on({SIGUSR2})), wait),
                  bad_descriptor);
        const auto child = [] { return expect(process::Command("true").spawn()); };
        const auto wait_for = [](process::Child& process) { return process.wait(); };
        EXPECT_EQ(co_await error_after_move(child(), child(), wait_for), bad_descriptor);
        const auto terminal = [] {
            auto both = expect(process::Terminal::open({}));
            return std::move(both.first);
        };
        EXPECT_EQ(co_await error_after_move(terminal(), terminal(), write), bad_descriptor);
        // A pty is as good as a serial port here.
        const auto port = [] {
            static std::vector<process::Terminal> kept;
            auto [end, other] = expect(process::Terminal::open({}));
            kept.push_back(std::move(end));
            return expect(serial::Port::open(other));
        };
        const auto drain = [](serial::Port& opened) { return opened.drain(); };
        EXPECT_EQ(co_await error_after_move(port(), port(), write), bad_descriptor);
        EXPECT_EQ(co_await error_after_move(port(), port(), drain), bad_descriptor);

        // A closed end of a memory stream reads the end.
        auto [near, far] = MemoryStream::pair();
        {
            const MemoryStream taken = std::move(near);
        }
        // NOLINTBEGIN(bugprone-use-after-move)
        EXPECT_EQ(co_await near.read(bytes), 0U);
        EXPECT_EQ((co_await near.write_all("x")).error(), std::errc::broken_pipe);
        EXPECT_TRUE(near.shutdown());
        near.close();

        Chunk chunk;
        (void)chunk.borrow();
        chunk.resize(5);
        {
            const Chunk taken = std::move(chunk);
        }
        EXPECT_TRUE(chunk.empty());
        OwnedDescriptor descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        {
            const OwnedDescriptor taken = std::move(descriptor);
        }
        EXPECT_FALSE(descriptor);
        sync::Mutex mutex;
        sync::Mutex::Guard guard = expect(co_await mutex.lock());
        {
            const sync::Mutex::Guard taken = std::move(guard);
        }
        EXPECT_FALSE(guard);
        guard.unlock();
        // NOLINTEND(bugprone-use-after-move)
    };
    run(program());
}

TEST(MovedFrom, CoroutinesReportTheirUse) {
    const auto task = []() -> Task<int> { co_return 1; };
    const auto numbers = []() -> Generator<int> { co_yield 1; };
    const auto later = []() -> AsyncGenerator<int> { co_yield 1; };
    // NOLINTBEGIN(bugprone-use-after-move)
    Task<int> moved_task = task();
    EXPECT_EQ(run(std::move(moved_task)), 1);
    EXPECT_DEATH((void)run(std::move(moved_task)), "a task runs once");
    Generator<int> generator = numbers();
    for (const int number : Generator<int>(std::move(generator))) {
        EXPECT_EQ(number, 1);
    }
    EXPECT_DEATH((void)generator.begin(), "Generator .* was used after it was moved from");
    Generator<int> ended = numbers();
    for (const int number : ended) {
        EXPECT_EQ(number, 1);
    }
    EXPECT_DEATH((void)ended.begin(), "one that has ended");
    AsyncGenerator<int> async = later();
    {
        const AsyncGenerator<int> taken = std::move(async);
    }
    EXPECT_DEATH((void)async.next(), "an AsyncGenerator was used after it was moved from");
    // NOLINTEND(bugprone-use-after-move)
}

/// A parameter that counts how many of its kind live.
class Counted {
public:
    explicit Counted(int& living) : living_(&living) { ++living; }
    Counted(Counted&& other) noexcept : living_(std::exchange(other.living_, nullptr)) {}
    Counted& operator=(Counted&&) = delete;
    ~Counted() {
        if (living_ != nullptr) {
            --*living_;
        }
    }

private:
    int* living_;
};

TEST(MoveAssignment, EndsTheCoroutineThatItReplaces) {
    const auto task = [](Counted /*held*/, int value) -> Task<int> { co_return value; };
    const auto numbers = [](Counted /*held*/, int value) -> Generator<int> { co_yield value; };
    const auto later = [](Counted /*held*/, int value) -> AsyncGenerator<int> { co_yield value; };
    int living = 0;
    const auto check = [&](auto make, auto first_of) {
        auto first = make(Counted(living), 1);
        auto second = make(Counted(living), 2);
        EXPECT_EQ(living, 2);
        first = std::move(second);
        EXPECT_EQ(living, 1);
        auto& same = first;
        first = std::move(same);
        EXPECT_EQ(living, 1);
        EXPECT_EQ(first_of(first), 2);
    };
    check(task, [](Task<int>& replaced) { return run(std::move(replaced)); });
    check(numbers, [](Generator<int>& replaced) { return *replaced.begin(); });
    check(later, [](AsyncGenerator<int>& replaced) {
        const auto next = [&]() -> Task<int> { co_return (co_await replaced.next()).value(); };
        return run(next());
    });
    EXPECT_EQ(living, 0);
}

TEST(MoveAssignment, EndsTheResourceThatItReplaces) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const penstock::testing::TemporaryFolder folder;
        // Each `ended` tells whether the resource of the object that was assigned to is gone.
        const auto check = [](auto first, auto second, auto ended) -> Task<> {
            first = std::move(second);
            EXPECT_TRUE(co_await ended());
        };
        std::array<std::byte, 4> bytes{};
        TcpPair pair = co_await connect_pair();
        const auto far_ends = [&](auto& far) {
            return [&]() -> Task<bool> { co_return co_await far.read(bytes) == 0U; };
        };
        co_await check(std::move(pair.near), net::TcpStream(), far_ends(pair.far));
        TcpPair boxed = co_await connect_pair();
        co_await check(AnyStream(std::move(boxed.near)), AnyStream(), far_ends(boxed.far));
        auto [near, far] = MemoryStream::pair();
        co_await check(std::move(near), std::move(MemoryStream::pair().first), far_ends(far));
        auto sockets = expect(net::UnixStream::pair());
        co_await check(std::move(sockets.first), net::UnixStream(), far_ends(sockets.second));
        PipeEnds ends = expect(make_pipe());
        co_await check(std::move(ends.writer), PipeWriter(), far_ends(ends.reader));

        const net::UnixEndpoint place = expect(net::UnixEndpoint::path(folder.path("socket")));
        co_await check(
            expect(net::UnixListener::listen(place)),
            expect(
                net::UnixListener::listen(expect(net::UnixEndpoint::path(folder.path("other"))))),
            [&]() -> Task<bool> { co_return !std::filesystem::exists(folder.path("socket")); });
        auto temporary = expect(co_await fs::TemporaryDirectory::create("a", folder.path(".")));
        const std::string old_path = temporary.path();
        co_await check(std::move(temporary),
                       expect(co_await fs::TemporaryDirectory::create("b", folder.path("."))),
                       [&]() -> Task<bool> { co_return !std::filesystem::exists(old_path); });

        auto [sender, receiver] = make_channel<int>(1);
        auto [other_sender, other_receiver] = make_channel<int>(1);
        co_await check(std::move(sender), std::move(other_sender),
                       [&]() -> Task<bool> { co_return receiver.closed(); });
        auto [promise, future] = make_promise<int>();
        auto [other_promise, other_future] = make_promise<int>();
        co_await check(std::move(promise), std::move(other_promise), [&]() -> Task<bool> {
            co_return (co_await future.wait()).error() == Error::broken_promise;
        });
        co_await check(expect(Signal::on({SIGUSR1})), expect(Signal::on({SIGUSR2})),
                       []() -> Task<bool> { co_return Signal::on({SIGUSR1}).has_value(); });
        sync::Mutex mutex;
        co_await check(expect(co_await mutex.lock()), sync::Mutex::Guard(),
                       [&]() -> Task<bool> { co_return mutex.try_lock().has_value(); });
        auto child = expect(process::Command("cat")
                                .input(process::Stdio::pipe())
                                .output(process::Stdio::pipe())
                                .kill_on_close()
                                .spawn());
        const PipeWriter input = std::move(child.input);
        PipeReader output = std::move(child.output);
        co_await check(std::move(child), expect(process::Command("true").spawn()),
                       far_ends(output));
    };
    run(program());
}

class MovedFromOverNetwork : public penstock::testing::TlsTest {};

TEST_F(MovedFromOverNetwork, ProtocolsReportOrRefuseTheirUse) {
    const auto program = [&]() -> Task<> {
        tls::Context moved_context = client();
        {
            const tls::Context taken = std::move(moved_context);
        }
        // NOLINTBEGIN(bugprone-use-after-move)
        EXPECT_EQ((co_await TlsStream::connect((co_await connect_pair()).near, moved_context, "x"))
                      .error(),
                  std::errc::invalid_argument);

        TcpPair pair = co_await connect_pair();
        auto both = expect(co_await penstock::testing::shake_hands<net::TcpStream>(
            std::move(pair.near), std::move(pair.far), client(), server()));
        std::array<std::byte, 4> bytes{};
        {
            const TlsStream taken = std::move(both.client);
        }
        EXPECT_EQ((co_await both.client.read(bytes)).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await both.client.receive()).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await both.client.write_all("x")).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await both.client.shutdown()).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await both.client.update_keys()).error(), std::errc::bad_file_descriptor);
        EXPECT_DEATH((void)both.client.version(), "a tls::Stream was used after it was moved from");

        http::Client moved_client;
        {
            const http::Client taken = std::move(moved_client);
        }
        EXPECT_EQ((co_await moved_client.send({.url = "http://localhost/"})).error(),
                  std::errc::operation_canceled);
        EXPECT_EQ((co_await moved_client.get("http://localhost/")).error(),
                  std::errc::operation_canceled);

        http::Client whole_client;
        http::RequestBody body = "text";
        const http::RequestBody taken_body = std::move(body);
        EXPECT_TRUE(body.none());
        EXPECT_FALSE(body.length());
        EXPECT_EQ((co_await whole_client.post("http://localhost/", std::move(body))).error(),
                  http::ClientError::invalid_request);
        body = "new";
        EXPECT_FALSE(body.moved_from());
        // NOLINTEND(bugprone-use-after-move)
    };
    run(program());
}

TEST_F(MovedFromOverNetwork, StaticFilesAnswerAsAClosedFolder) {
    const penstock::testing::TemporaryFolder folder;
    (void)folder.file("file.txt", "text");
    http::StaticFiles files = expect(http::StaticFiles::open(folder.path(".")));
    std::error_code error;
    http::Server server;
    server.get("/", [&](http::Request& request, http::Response& response) -> Task<Result<>> {
        const Result<> served = co_await files.serve(request, response, "file.txt");
        error = error_of(served);
        co_return Result<>();
    });
    const std::string question = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    penstock::testing::with_server(server, [&](net::Endpoint endpoint) -> Task<> {
        {
            const http::StaticFiles taken = std::move(files);
        }
        (void)co_await penstock::testing::exchange(endpoint, question);
        EXPECT_EQ(error, std::errc::bad_file_descriptor);
        files = expect(http::StaticFiles::open(folder.path(".")));
        const std::string answer = co_await penstock::testing::exchange(endpoint, question);
        EXPECT_TRUE(answer.ends_with("text")) << answer;
    });
}

Task<Result<std::tuple<ws::WebSocket, ws::WebSocket>>> connect_web_sockets() {
    TcpPair pair = co_await connect_pair();
    co_return co_await all(
        ws::WebSocket::connect(AnyStream(std::move(pair.near)), "localhost", "/"),
        ws::WebSocket::accept(AnyStream(std::move(pair.far))));
}

TEST_F(MovedFromOverNetwork, WebSocketsReportTheirUse) {
    const auto program = []() -> Task<> {
        auto [client, server] = expect(co_await connect_web_sockets());
        {
            const ws::WebSocket taken = std::move(client);
        }
        // NOLINTBEGIN(bugprone-use-after-move)
        EXPECT_DEATH((void)client.close_code(), "a ws::WebSocket was used after it was moved from");
        EXPECT_DEATH((void)client.subprotocol(), "a ws::WebSocket was used after");

        auto [near, far] = expect(co_await connect_web_sockets());
        auto writer = expect(co_await near.begin_text());
        auto taken_writer = std::move(writer);
        EXPECT_EQ((co_await writer.write("x")).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await writer.finish("x")).error(), std::errc::bad_file_descriptor);
        EXPECT_TRUE(co_await taken_writer.finish("whole"));
        EXPECT_EQ((co_await taken_writer.finish()).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ(expect(co_await far.receive()).text(), "whole");

        ws::Server listening(listen_on_loopback());
        {
            const ws::Server taken = std::move(listening);
        }
        EXPECT_DEATH((void)listening.connections(),
                     "a ws::Server was used after it was moved from");
        EXPECT_DEATH(listening.shutdown(), "a ws::Server was used after");
        // NOLINTEND(bugprone-use-after-move)
    };
    run(program());
}

} // namespace
