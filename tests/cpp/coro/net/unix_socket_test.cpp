// Unix streams and listeners: paths, abstract names, credentials, descriptors.

#include <penstock/net/unix_listener.hpp>
#include <penstock/net/unix_stream.hpp>
#include <penstock/stream/pipe.hpp>
#include <penstock/task/run.hpp>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coro/support/tcp_pair.hpp"
#include "support/descriptors.hpp"
#include "support/temporary_folder.hpp"

namespace {

using penstock::make_pipe;
using penstock::OwnedDescriptor;
using penstock::PipeEnds;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::net::UnixEndpoint;
using penstock::net::UnixListener;
using penstock::net::UnixStream;
using penstock::testing::expect;
using penstock::testing::TemporaryFolder;

std::string text_of(const std::array<char, 64>& buffer, std::size_t size) {
    return {buffer.data(), size};
}

/// A round trip over a connection to a listener.
Task<void> exchange(const UnixEndpoint& endpoint) {
    Result<UnixListener> listener = UnixListener::listen(endpoint);
    EXPECT_TRUE(listener) << listener.error().message();
    if (!listener) {
        co_return;
    }
    Result<UnixStream> client = co_await UnixStream::connect(endpoint);
    Result<UnixStream> server = co_await listener->accept();
    EXPECT_TRUE(client && server);
    if (!client || !server) {
        co_return;
    }
    EXPECT_TRUE(co_await client->write_all("ping"));
    std::array<char, 64> buffer{};
    EXPECT_EQ(co_await server->read(buffer), 4U);
    EXPECT_EQ(text_of(buffer, 4), "ping");
    EXPECT_EQ(client->peer_endpoint().value().to_string(), endpoint.to_string());
    EXPECT_TRUE(server->peer_endpoint().value().is_unnamed());
    EXPECT_TRUE(client->shutdown());
    EXPECT_EQ(co_await server->read(buffer), 0U);
}

TEST(UnixSocket, ConnectsByPath) {
    const TemporaryFolder folder;
    run(exchange(UnixEndpoint::path(folder.path("socket")).value()));
}

TEST(UnixSocket, ConnectsByAbstractName) {
    const std::string name = "penstock-test-" + std::to_string(::getpid());
    run(exchange(UnixEndpoint::abstract(name).value()));
    EXPECT_EQ(UnixEndpoint::abstract(name)->to_string(), "@" + name);
}

TEST(UnixSocket, AnAbstractNameMayHoldAnyBytes) {
    const std::string name("penstock\0test", 13);
    EXPECT_EQ(UnixEndpoint::abstract(name)->name(), name);
}

TEST(UnixSocket, RefusesNamesThatTheKernelCannotHold) {
    EXPECT_EQ(UnixEndpoint::path(std::string(108, 'x')).error(), std::errc::filename_too_long);
    EXPECT_TRUE(UnixEndpoint::path(std::string(107, 'x')));
    EXPECT_EQ(UnixEndpoint::path("").error(), std::errc::invalid_argument);
    EXPECT_EQ(UnixEndpoint::path(std::string("a\0b", 3)).error(), std::errc::invalid_argument);
    EXPECT_EQ(UnixEndpoint::abstract("").error(), std::errc::invalid_argument);
}

TEST(UnixSocket, ClosingAListenerRemovesItsFile) {
    const TemporaryFolder folder;
    const std::string path = folder.path("socket");
    const UnixEndpoint endpoint = UnixEndpoint::path(path).value();
    {
        const Result<UnixListener> listener = UnixListener::listen(endpoint, {.mode = 0600});
        ASSERT_TRUE(listener);
        struct stat status{};
        ASSERT_EQ(::stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777U, 0600U);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(UnixSocket, AFileThatReplacedTheSocketFileStays) {
    const TemporaryFolder folder;
    const std::string path = folder.path("socket");
    {
        const Result<UnixListener> listener =
            UnixListener::listen(UnixEndpoint::path(path).value());
        ASSERT_TRUE(listener);
        // Created first, so that it cannot get the inode of the removed one.
        std::filesystem::rename(folder.file("other", "kept"), path);
    }
    EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(UnixSocket, AStaleSocketFileIsReplacedAndALiveOneIsNot) {
    const TemporaryFolder folder;
    const UnixEndpoint endpoint = UnixEndpoint::path(folder.path("socket")).value();
    {
        // What a killed process leaves.
        const OwnedDescriptor killed(::socket(AF_UNIX, SOCK_STREAM, 0));
        ASSERT_EQ(::bind(killed.get(), endpoint.native(), endpoint.native_size()), 0);
    }
    EXPECT_EQ(UnixListener::listen(endpoint, {.replace_stale = false}).error(),
              std::errc::address_in_use);
    const Result<UnixListener> listener = UnixListener::listen(endpoint);
    ASSERT_TRUE(listener);
    EXPECT_EQ(UnixListener::listen(endpoint).error(), std::errc::address_in_use);
}

TEST(UnixSocket, AFileThatIsNoSocketIsNeverReplaced) {
    const TemporaryFolder folder;
    const std::string path = folder.file("file", "kept");
    EXPECT_EQ(UnixListener::listen(UnixEndpoint::path(path).value()).error(),
              std::errc::address_in_use);
    EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(UnixSocket, ReportsThePeersCredentials) {
    const Result<std::pair<UnixStream, UnixStream>> pair = UnixStream::pair();
    ASSERT_TRUE(pair);
    const auto credentials = pair->first.peer_credentials();
    ASSERT_TRUE(credentials);
    EXPECT_EQ(credentials->process, ::getpid());
    EXPECT_EQ(credentials->user, ::geteuid());
    EXPECT_EQ(credentials->group, ::getegid());
}

TEST(UnixSocket, PassesDescriptors) {
    const auto body = []() -> Task<void> {
        auto [left, right] = UnixStream::pair().value();
        PipeEnds pipe = make_pipe().value();
        const std::array<int, 2> sent{pipe.reader.native_handle(), pipe.writer.native_handle()};
        EXPECT_EQ(co_await left.send("two pipe ends", sent), 13U);

        std::array<char, 64> buffer{};
        std::vector<OwnedDescriptor> received;
        EXPECT_EQ(co_await right.receive(buffer, received), 13U);
        EXPECT_EQ(text_of(buffer, 13), "two pipe ends");
        EXPECT_EQ(received.size(), 2U);
        if (received.size() != 2) {
            co_return;
        }
        EXPECT_NE(::fcntl(received[0].get(), F_GETFD) & FD_CLOEXEC, 0);
        // They are the same pipe under other numbers.
        EXPECT_EQ(::write(received[1].get(), "x", 1), 1);
        EXPECT_EQ(co_await pipe.reader.read(buffer), 1U);

        EXPECT_TRUE(co_await left.write_all("plain"));
        EXPECT_EQ(co_await right.receive(buffer, received), 5U);
        EXPECT_EQ(received.size(), 2U);
    };
    run(body());
}

TEST(UnixSocket, BytesAreKeptWhenDescriptorsAreLost) {
    const auto body = []() -> Task<void> {
        auto [left, right] = UnixStream::pair().value();
        const std::array<int, 2> sent{STDIN_FILENO, STDOUT_FILENO};
        EXPECT_EQ(co_await left.send("text", sent), 4U);
        std::array<char, 64> buffer{};
        std::vector<OwnedDescriptor> received;
        {
            const penstock::testing::NoDescriptors none;
            EXPECT_EQ(co_await right.receive(buffer, received), 4U);
        }
        EXPECT_EQ(text_of(buffer, 4), "text");
        EXPECT_EQ(received.size(), 1U);
        EXPECT_FALSE(received.back());
    };
    run(body());
}

TEST(UnixSocket, RefusesDescriptorsWithoutBytesAndTooMany) {
    const auto body = []() -> Task<void> {
        auto [left, right] = UnixStream::pair().value();
        const std::vector<int> many(254, 0);
        EXPECT_EQ((co_await left.send("", std::span(many).first(1))).error(),
                  std::errc::invalid_argument);
        EXPECT_EQ((co_await left.send("x", many)).error(), std::errc::invalid_argument);
    };
    run(body());
}

TEST(UnixSocket, ConnectingWhereNobodyListensIsRefused) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.path("socket");
        EXPECT_EQ((co_await UnixStream::connect(UnixEndpoint::path(path).value())).error(),
                  std::errc::no_such_file_or_directory);
    };
    run(body());
}

TEST(UnixSocket, AssigningAListenerClosesTheOldOne) {
    const TemporaryFolder folder;
    const std::string first = folder.path("first");
    const std::string second = folder.path("second");
    UnixListener listener = expect(UnixListener::listen(expect(UnixEndpoint::path(first))));
    listener = expect(UnixListener::listen(expect(UnixEndpoint::path(second))));
    EXPECT_FALSE(std::filesystem::exists(first));
    UnixListener& same = listener;
    listener = std::move(same);
    EXPECT_TRUE(listener.is_open());
    EXPECT_TRUE(std::filesystem::exists(second));
}

} // namespace
