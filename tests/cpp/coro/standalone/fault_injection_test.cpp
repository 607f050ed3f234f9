// System calls fail in every way that a kernel knows. They are replaced at link time (ld's --wrap),
// so the tests run the library as it is shipped.

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <gtest/gtest.h>

#include <penstock/penstock.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

/// Faults of the next calls: an errno, or a maximum number of bytes.
struct Fault {
    int error = 0;
    std::size_t at_most = 0;
};

std::map<std::string_view, std::deque<Fault>> planned;

/// Random faults instead, from a seed.
std::optional<std::mt19937> chance;

std::optional<Fault> next_fault(std::string_view call) {
    if (chance) {
        switch ((*chance)() % 8) {
        case 0:
            return Fault{.error = EINTR};
        case 1:
            return Fault{.error = EAGAIN};
        case 2:
        case 3:
            return Fault{.at_most = 1 + (*chance)() % 700};
        default:
            return std::nullopt;
        }
    }
    std::deque<Fault>& faults = planned[call];
    if (faults.empty()) {
        return std::nullopt;
    }
    const Fault fault = faults.front();
    faults.pop_front();
    return fault;
}

/// Returns true if the call fails, with `errno` set. Otherwise `size` may be reduced.
bool fails(std::string_view call, std::size_t& size) {
    const std::optional<Fault> fault = next_fault(call);
    if (!fault) {
        return false;
    }
    if (fault->error != 0) {
        errno = fault->error;
        return true;
    }
    size = std::min(size, fault->at_most);
    return false;
}

bool fails_as_planned(std::string_view call) {
    if (chance) {
        return false;
    }
    std::size_t size = 0;
    return fails(call, size);
}

} // namespace

extern "C" {

// The names are the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier)
ssize_t __real_recv(int fd, void* buffer, std::size_t size, int flags);
ssize_t __real_send(int fd, const void* buffer, std::size_t size, int flags);
ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
int __real_accept4(int fd, sockaddr* address, socklen_t* size, int flags);
int __real_socket(int family, int type, int protocol);
int __real_connect(int fd, const sockaddr* address, socklen_t size);
int __real_epoll_ctl(int epoll, int operation, int fd, epoll_event* event);
int __real_epoll_create1(int flags);
ssize_t __real_read(int fd, void* buffer, std::size_t size);
ssize_t __real_pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags);
ssize_t __real_writev(int fd, const iovec* parts, int count);
ssize_t __real_recvmsg(int fd, msghdr* message, int flags);
ssize_t __real_sendto(int fd, const void* buffer, std::size_t size, int flags,
                      const sockaddr* address, socklen_t address_size);
int __real_recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* limit);
int __real_sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags);
int __real_pipe2(int* ends, int flags);

ssize_t __wrap_read(int fd, void* buffer, std::size_t size) {
    return fails("read", size) ? -1 : __real_read(fd, buffer, size);
}

/// The parts of a write that moves at most that many bytes.
struct ShortParts {
    ShortParts(const iovec* parts, int count, std::size_t at_most) {
        for (int i = 0; i < count && at_most > 0; ++i) {
            iovec part = parts[i];
            part.iov_len = std::min(part.iov_len, at_most);
            at_most -= part.iov_len;
            kept.push_back(part);
        }
    }
    [[nodiscard]] int count() const { return static_cast<int>(kept.size()); }

    std::vector<iovec> kept;
};

ssize_t __wrap_pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    std::size_t size = SIZE_MAX;
    if (fails("pwritev2", size)) {
        return -1;
    }
    const ShortParts kept(parts, count, size);
    return __real_pwritev2(fd, kept.kept.data(), kept.count(), offset, flags);
}

ssize_t __wrap_writev(int fd, const iovec* parts, int count) {
    std::size_t size = SIZE_MAX;
    if (fails("writev", size)) {
        return -1;
    }
    const ShortParts kept(parts, count, size);
    return __real_writev(fd, kept.kept.data(), kept.count());
}

ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
    return fails_as_planned("recvmsg") ? -1 : __real_recvmsg(fd, message, flags);
}

ssize_t __wrap_sendto(int fd, const void* buffer, std::size_t size, int flags,
                      const sockaddr* address, socklen_t address_size) {
    return fails_as_planned("sendto")
               ? -1
               : __real_sendto(fd, buffer, size, flags, address, address_size);
}

int __wrap_recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* limit) {
    std::size_t size = count;
    return fails("recvmmsg", size)
               ? -1
               : __real_recvmmsg(fd, messages, static_cast<unsigned>(size), flags, limit);
}

int __wrap_sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    std::size_t size = count;
    return fails("sendmmsg", size)
               ? -1
               : __real_sendmmsg(fd, messages, static_cast<unsigned>(size), flags);
}

int __wrap_pipe2(int* ends, int flags) {
    return fails_as_planned("pipe2") ? -1 : __real_pipe2(ends, flags);
}

ssize_t __wrap_recv(int fd, void* buffer, std::size_t size, int flags) {
    return fails("recv", size) ? -1 : __real_recv(fd, buffer, size, flags);
}

ssize_t __wrap_send(int fd, const void* buffer, std::size_t size, int flags) {
    return fails("send", size) ? -1 : __real_send(fd, buffer, size, flags);
}

ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
    std::size_t size = SIZE_MAX;
    if (fails("sendmsg", size)) {
        return -1;
    }
    if (size == SIZE_MAX || message->msg_iovlen == 0) {
        return __real_sendmsg(fd, message, flags);
    }
    const iovec& first = message->msg_iov[0]; // a short write that ends inside the first part
    return __real_send(fd, first.iov_base, std::min(first.iov_len, size), flags);
}

int __wrap_accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
    return fails_as_planned("accept4") ? -1 : __real_accept4(fd, address, size, flags);
}

int __wrap_socket(int family, int type, int protocol) {
    return fails_as_planned("socket") ? -1 : __real_socket(family, type, protocol);
}

int __wrap_connect(int fd, const sockaddr* address, socklen_t size) {
    const bool interrupted = fails_as_planned("connect");
    const int saved = errno;
    const int result = __real_connect(fd, address, size); // a signal does not end the attempt
    if (interrupted) {
        errno = saved;
        return -1;
    }
    return result;
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
    return fails_as_planned("epoll_ctl") ? -1 : __real_epoll_ctl(epoll, operation, fd, event);
}

int __wrap_epoll_create1(int flags) {
    return fails_as_planned("epoll_create1") ? -1 : __real_epoll_create1(flags);
}
// NOLINTEND(bugprone-reserved-identifier)
}

namespace {

using penstock::Chunk;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::listen_on_loopback;
using penstock::testing::TcpPair;
using penstock::testing::Watchdog;
namespace net = penstock::net;

class FaultInjection : public ::testing::Test {
public:
    ~FaultInjection() override {
        chance.reset();
        for (const auto& [call, faults] : planned) {
            EXPECT_TRUE(faults.empty()) << call << " was not called as often as planned";
        }
        planned.clear();
    }

protected:
    const Watchdog watchdog_;
};

TEST_F(FaultInjection, InterruptedCallsAreRepeated) {
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        planned["send"] = {{.error = EINTR}, {.error = EINTR}};
        planned["sendmsg"] = {{.error = EINTR}};
        planned["recv"] = {{.error = EINTR}, {.error = EINTR}, {.error = EINTR}};
        expect(co_await pair.near.write_all("one "));
        expect(co_await pair.near.write_all("two ", "three"));
        std::string text(13, ' ');
        expect(co_await pair.far.read_exactly(text));
        EXPECT_EQ(text, "one two three");
    };
    run(program());
}

TEST_F(FaultInjection, ShortReadsAndWritesAreCompleted) {
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        planned["send"] = {{.at_most = 1}, {.at_most = 3}};
        planned["sendmsg"] = {{.at_most = 1}, {.at_most = 2}};
        planned["recv"] = {{.at_most = 1}, {.at_most = 1}, {.at_most = 2}};
        expect(co_await pair.near.write_all("0123456789"));
        expect(co_await pair.near.write_all("abcde", "fgh", "ij"));
        std::string text(20, ' ');
        expect(co_await pair.far.read_exactly(text));
        EXPECT_EQ(text, "0123456789abcdefghij");
    };
    run(program());
}

TEST_F(FaultInjection, AResetIsReportedAndTheLoopContinues) {
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        // A byte is there: a task that has used up its time waits before it receives.
        expect(co_await pair.near.write_all("x"));
        planned["recv"] = {{.error = ECONNRESET}};
        EXPECT_EQ((co_await pair.far.receive()).error(), std::errc::connection_reset);
        planned["send"] = {{.error = ECONNRESET}, {.error = EPIPE}, {.error = ENOBUFS}};
        EXPECT_EQ((co_await pair.near.write_all("x")).error(), std::errc::connection_reset);
        EXPECT_EQ((co_await pair.near.write_all("x")).error(), std::errc::broken_pipe);
        EXPECT_EQ((co_await pair.near.write("x")).error(), std::errc::no_buffer_space);
        expect(co_await pair.near.write_all("x"));
        EXPECT_EQ(expect(co_await pair.far.receive()).size(), 2U);
    };
    run(program());
}

TEST_F(FaultInjection, ReceivingWithoutMemoryLosesNothing) {
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        expect(co_await pair.near.write_all("kept"));
        planned["recv"] = {{.error = ENOMEM}};
        EXPECT_EQ((co_await pair.far.receive()).error(), std::errc::not_enough_memory);
        EXPECT_EQ(expect(co_await pair.far.receive()).size(), 4U);
    };
    run(program());
}

TEST_F(FaultInjection, AConnectionWaitsUntilThereAreDescriptors) {
    const auto program = []() -> Task<> {
        net::TcpListener listener = listen_on_loopback();
        const net::TcpStream client =
            expect(co_await net::TcpStream::connect(expect(listener.local_endpoint())));
        planned["accept4"] = {{.error = EMFILE}, {.error = ENFILE}, {.error = ENOMEM}};
        EXPECT_EQ((co_await listener.accept()).error(), std::errc::too_many_files_open);
        EXPECT_EQ((co_await listener.accept()).error(), std::errc::too_many_files_open_in_system);
        EXPECT_EQ((co_await listener.accept()).error(), std::errc::not_enough_memory);
        EXPECT_EQ(expect(co_await listener.accept()).peer_endpoint(), client.local_endpoint());
    };
    run(program());
}

TEST_F(FaultInjection, ConnectionsThatEndedEarlyAreSkipped) {
    const auto program = []() -> Task<> {
        net::TcpListener listener = listen_on_loopback();
        const net::TcpStream client =
            expect(co_await net::TcpStream::connect(expect(listener.local_endpoint())));
        planned["accept4"] = {{.error = ECONNABORTED}, {.error = EINTR}, {.error = EPROTO}};
        EXPECT_TRUE(co_await listener.accept());
    };
    run(program());
}

TEST_F(FaultInjection, ConnectingWithoutADescriptorFailsAndDoesNotWait) {
    const auto program = []() -> Task<> {
        const net::TcpListener listener = listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        planned["socket"] = {{.error = EMFILE}};
        EXPECT_EQ((co_await net::TcpStream::connect(endpoint)).error(),
                  std::errc::too_many_files_open);
        EXPECT_TRUE(co_await net::TcpStream::connect(endpoint));
    };
    run(program());
}

TEST_F(FaultInjection, AnInterruptedConnectContinues) {
    const auto program = []() -> Task<> {
        const net::TcpListener listener = listen_on_loopback();
        planned["connect"] = {{.error = EINTR}};
        const net::TcpStream stream =
            expect(co_await net::TcpStream::connect(expect(listener.local_endpoint())));
        EXPECT_TRUE(stream.peer_endpoint());
    };
    run(program());
}

TEST_F(FaultInjection, AnOperationThatCannotBeWatchedEndsWithTheReason) {
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        planned["epoll_ctl"] = {{.error = ENOMEM}, {.error = ENOSPC}};
        EXPECT_EQ((co_await pair.far.receive()).error(), std::errc::not_enough_memory);
        EXPECT_EQ((co_await pair.far.receive()).error(), std::errc::no_space_on_device);
        const auto write_later = [](net::TcpStream& stream) -> Task<Result<>> {
            (void)co_await penstock::yield();
            co_return co_await stream.write_all("x");
        };
        expect(co_await penstock::all(pair.far.receive(), write_later(pair.near)));
    };
    run(program());
}

TEST_F(FaultInjection, CreatingALoopWithoutDescriptorsThrows) {
    const auto nothing = []() -> Task<> { co_return; };
    planned["epoll_create1"] = {{.error = EMFILE}};
    try {
        run(nothing());
        FAIL() << "there was no descriptor for a loop";
    } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), std::errc::too_many_files_open);
    }
    run(nothing());
}

Task<Result<>> send_all(net::TcpStream& stream, const std::string& text) {
    for (std::size_t sent = 0; sent < text.size(); sent += 5000) {
        const std::string_view part = std::string_view(text).substr(sent, 5000);
        if (Result<> written = co_await stream.write_all(part.substr(0, part.size() / 3),
                                                         part.substr(part.size() / 3));
            !written) {
            co_return written;
        }
    }
    co_return stream.shutdown();
}

Task<std::string> receive_all(net::TcpStream& stream) {
    std::string text;
    for (;;) {
        const Chunk chunk = expect(co_await stream.receive());
        if (chunk.empty()) {
            co_return text;
        }
        text.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    }
}

TEST_F(FaultInjection, BytesArriveWholeThroughFaultsAtRandom) {
    std::string text(200'000, ' ');
    for (std::size_t i = 0; i < text.size(); ++i) {
        text[i] = static_cast<char>('!' + (i * 31 + i / 90) % 90);
    }
    for (unsigned seed = 0; seed < 10; ++seed) {
        const auto program = [&]() -> Task<> {
            TcpPair pair = co_await connect_pair();
            chance.emplace(seed);
            const auto both =
                expect(co_await penstock::all(send_all(pair.near, text), receive_all(pair.far)));
            EXPECT_EQ(std::get<1>(both), text) << "seed " << seed;
            chance.reset();
        };
        penstock::EventLoop loop(penstock::EventLoop::Options{.shuffle_seed = seed});
        loop.run(program());
    }
}

TEST_F(FaultInjection, PipesSurviveInterruptionsAndShortCalls) {
    const auto program = []() -> Task<> {
        penstock::PipeEnds pipe = expect(penstock::make_pipe());
        planned["pwritev2"] = {{.error = EINTR}, {.at_most = 1}, {.at_most = 4}};
        planned["read"] = {{.error = EINTR}, {.at_most = 1}, {.at_most = 2}};
        expect(co_await pipe.writer.write_all("one ", "two ", "three"));
        std::string text(13, ' ');
        expect(co_await pipe.reader.read_exactly(text));
        EXPECT_EQ(text, "one two three");
    };
    run(program());
}

TEST_F(FaultInjection, AnOlderKernelWritesPipesTheSameWay) {
    const auto program = []() -> Task<> {
        penstock::PipeEnds pipe = expect(penstock::make_pipe());
        planned["pwritev2"] = {{.error = EOPNOTSUPP}};
        planned["writev"] = {{.at_most = 2}, {.error = EINTR}, {.at_most = 1}};
        expect(co_await pipe.writer.write_all("ab", "cdef"));
        std::string text(6, ' ');
        expect(co_await pipe.reader.read_exactly(text));
        EXPECT_EQ(text, "abcdef");
        pipe.reader.close();
        EXPECT_EQ((co_await pipe.writer.write_all("x")).error(), std::errc::broken_pipe);
    };
    run(program());
}

TEST_F(FaultInjection, CreatingAPipeWithoutDescriptorsIsAnError) {
    planned["pipe2"] = {{.error = EMFILE}, {.error = ENFILE}};
    EXPECT_EQ(penstock::make_pipe().error(), std::errc::too_many_files_open);
    EXPECT_EQ(penstock::Signal::on({SIGUSR1}).error(), std::errc::too_many_files_open_in_system);
    EXPECT_TRUE(penstock::Signal::on({SIGUSR1}));
}

TEST_F(FaultInjection, DatagramsSurviveInterruptionsAndShortBatches) {
    const auto program = []() -> Task<> {
        net::UdpSocket receiver = expect(net::UdpSocket::bind(net::Endpoint::loopback(0)));
        net::UdpSocket sender = expect(net::UdpSocket::bind(net::Endpoint::loopback(0)));
        const net::Endpoint to = expect(receiver.local_endpoint());
        planned["sendto"] = {{.error = EINTR}};
        expect(co_await sender.send_to("single", to));
        planned["sendto"] = {{.error = ENOBUFS}, {.error = ENOMEM}};
        EXPECT_EQ((co_await sender.send_to("x", to)).error(), std::errc::no_buffer_space);
        EXPECT_EQ((co_await sender.send_to("x", to)).error(), std::errc::not_enough_memory);
        std::array<char, 16> buffer{};
        planned["recvmsg"] = {{.error = EINTR}, {.error = ENOMEM}};
        EXPECT_EQ((co_await receiver.receive(buffer)).error(), std::errc::not_enough_memory);
        EXPECT_EQ(expect(co_await receiver.receive(buffer)).size, 6U);

        const std::array<net::OutgoingDatagram, 4> datagrams{{{.bytes = "a", .to = to},
                                                              {.bytes = "b", .to = to},
                                                              {.bytes = "c", .to = to},
                                                              {.bytes = "d", .to = to}}};
        planned["sendmmsg"] = {{.error = EINTR}, {.at_most = 1}, {.at_most = 2}};
        planned["recvmmsg"] = {{.error = EINTR}, {.at_most = 1}};
        expect(co_await sender.send(datagrams));
        net::DatagramBatch batch(8, 16);
        EXPECT_EQ(co_await receiver.receive(batch), 1U);
        EXPECT_EQ(co_await receiver.receive(batch), 3U);
        EXPECT_EQ(static_cast<char>(batch[2].bytes[0]), 'd');
    };
    run(program());
}

} // namespace
