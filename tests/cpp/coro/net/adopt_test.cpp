// Sockets that another library or process has opened.

#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/tcp_stream.hpp>

#include <array>
#include <string_view>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <penstock/owned_descriptor.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>

#include "support/watchdog.hpp"

namespace {

using penstock::OwnedDescriptor;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::net::Endpoint;
using penstock::net::TcpListener;
using penstock::net::TcpStream;
using penstock::testing::Watchdog;

OwnedDescriptor blocking_listener() {
    OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Endpoint endpoint = Endpoint::loopback(0);
    EXPECT_EQ(::bind(socket.get(), endpoint.native(), endpoint.native_size()), 0);
    EXPECT_EQ(::listen(socket.get(), 10), 0);
    return socket;
}

TEST(Adopt, TakesAListenerAndAConnection) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Result<TcpListener> listener = TcpListener::adopt(blocking_listener());
        EXPECT_TRUE(listener);
        const Endpoint endpoint = *listener->local_endpoint();
        OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(socket.get(), endpoint.native(), endpoint.native_size()), 0);
        Result<TcpStream> client = TcpStream::adopt(std::move(socket));
        EXPECT_TRUE(client);
        EXPECT_NE(::fcntl(client->native_handle(), F_GETFL) & O_NONBLOCK, 0);
        EXPECT_EQ(client->no_delay(), true);
        Result<TcpStream> server = co_await listener->accept();
        EXPECT_EQ(server->no_delay(), true);
        std::array<char, 5> text{};
        EXPECT_TRUE(co_await penstock::all(client->write_all("hello"), server->read_exactly(text)));
        EXPECT_EQ(std::string_view(text.data(), text.size()), "hello");
    };
    run(program());
}

TEST(Adopt, ClosesTheSocketInProgramsThatAreExecuted) {
    OwnedDescriptor socket = blocking_listener(); // without close-on-exec, as systemd passes it
    EXPECT_EQ(::fcntl(socket.get(), F_SETFD, 0), 0);
    const TcpListener listener = TcpListener::adopt(std::move(socket)).value();
    EXPECT_EQ(::fcntl(listener.native_handle(), F_GETFD), FD_CLOEXEC);
    const Endpoint endpoint = *listener.local_endpoint();
    OwnedDescriptor client(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(client.get(), endpoint.native(), endpoint.native_size()), 0);
    const TcpStream stream = TcpStream::adopt(std::move(client)).value();
    EXPECT_EQ(::fcntl(stream.native_handle(), F_GETFD), FD_CLOEXEC);
}

TEST(Adopt, RefusesWhatIsNoSuchSocketAndClosesIt) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    const OwnedDescriptor other(pipe[1]);
    EXPECT_EQ(TcpStream::adopt(OwnedDescriptor(pipe[0])).error(), std::errc::not_a_socket);
    EXPECT_EQ(::fcntl(pipe[0], F_GETFD), -1);
    EXPECT_EQ(TcpStream::adopt(OwnedDescriptor()).error(), std::errc::bad_file_descriptor);
    EXPECT_EQ(TcpStream::adopt(OwnedDescriptor(::socket(AF_UNIX, SOCK_STREAM, 0))).error(),
              std::errc::wrong_protocol_type);
    EXPECT_EQ(TcpListener::adopt(OwnedDescriptor(::socket(AF_INET, SOCK_DGRAM, 0))).error(),
              std::errc::wrong_protocol_type);
    EXPECT_EQ(TcpStream::adopt(OwnedDescriptor(::socket(AF_INET, SOCK_STREAM, 0))).error(),
              std::errc::not_connected);
    EXPECT_EQ(TcpListener::adopt(OwnedDescriptor(::socket(AF_INET6, SOCK_STREAM, 0))).error(),
              std::errc::invalid_argument);
}

} // namespace
