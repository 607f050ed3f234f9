// UDP sockets: single datagrams, batches, connected sockets, multicast on the loopback interface.

#include <penstock/net/udp_socket.hpp>
#include <penstock/task/run.hpp>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using penstock::Bytes;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::net::DatagramBatch;
using penstock::net::Endpoint;
using penstock::net::OutgoingDatagram;
using penstock::net::ReceivedDatagram;
using penstock::net::UdpSocket;

std::string text_of(penstock::MutableBytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

UdpSocket bound() {
    return UdpSocket::bind(Endpoint::loopback(0)).value();
}

TEST(UdpSocket, ADatagramArrivesWholeWithItsSender) {
    const auto body = []() -> Task<void> {
        UdpSocket left = bound();
        UdpSocket right = bound();
        EXPECT_TRUE(co_await left.send_to("hello", right.local_endpoint().value()));
        std::array<char, 64> buffer{};
        const Result<ReceivedDatagram> received = co_await right.receive(buffer);
        EXPECT_TRUE(received);
        EXPECT_EQ(received->size, 5U);
        EXPECT_EQ(std::string(buffer.data(), 5), "hello");
        EXPECT_EQ(received->sender, left.local_endpoint().value());
        EXPECT_FALSE(received->truncated);
    };
    run(body());
}

TEST(UdpSocket, ReportsATruncatedDatagram) {
    const auto body = []() -> Task<void> {
        UdpSocket left = bound();
        UdpSocket right = bound();
        EXPECT_TRUE(co_await left.send_to("too long", right.local_endpoint().value()));
        EXPECT_TRUE(co_await left.send_to("", right.local_endpoint().value()));
        std::array<char, 3> buffer{};
        const Result<ReceivedDatagram> cut = co_await right.receive(buffer);
        EXPECT_EQ(cut->size, 3U);
        EXPECT_TRUE(cut->truncated);
        const Result<ReceivedDatagram> empty = co_await right.receive(buffer);
        EXPECT_EQ(empty->size, 0U);
        EXPECT_FALSE(empty->truncated);
    };
    run(body());
}

TEST(UdpSocket, AConnectedSocketReportsThatNobodyListens) {
    const auto body = []() -> Task<void> {
        UdpSocket gone = bound();
        const Endpoint nobody = gone.local_endpoint().value();
        gone.close();
        UdpSocket socket = bound();
        EXPECT_EQ((co_await socket.send("x")).error(), std::errc::destination_address_required);
        EXPECT_TRUE(socket.connect(nobody));
        EXPECT_EQ(socket.peer_endpoint().value(), nobody);
        EXPECT_TRUE(co_await socket.send("x"));
        std::array<char, 8> buffer{};
        EXPECT_EQ((co_await socket.receive(buffer)).error(), std::errc::connection_refused);
    };
    run(body());
}

TEST(UdpSocket, ADatagramThatIsTooLargeIsRefused) {
    const auto body = []() -> Task<void> {
        UdpSocket socket = bound();
        const std::vector<char> large(65'508);
        EXPECT_EQ((co_await socket.send_to(large, socket.local_endpoint().value())).error(),
                  std::errc::message_size);
    };
    run(body());
}

TEST(UdpSocket, BatchesKeepOrderAndBoundaries) {
    const auto body = []() -> Task<void> {
        UdpSocket left = bound();
        UdpSocket right = bound();
        EXPECT_TRUE(right.receive_buffer_size(1 << 20));
        std::vector<std::string> texts;
        texts.reserve(100);
        for (int i = 0; i < 100; ++i) {
            texts.push_back(std::string(static_cast<std::size_t>(i % 7), 'x') + std::to_string(i));
        }
        std::vector<OutgoingDatagram> datagrams;
        datagrams.reserve(texts.size());
        for (const std::string& text : texts) {
            datagrams.push_back({.bytes = Bytes(text), .to = right.local_endpoint().value()});
        }
        EXPECT_TRUE(co_await left.send(datagrams));

        DatagramBatch batch(64, 32);
        std::vector<std::string> received;
        while (received.size() < texts.size()) {
            const Result<std::size_t> count = co_await right.receive(batch);
            EXPECT_TRUE(count);
            EXPECT_EQ(*count, batch.size());
            for (std::size_t i = 0; i < batch.size(); ++i) {
                received.push_back(text_of(batch[i].bytes));
                EXPECT_EQ(batch[i].sender, left.local_endpoint().value());
            }
        }
        EXPECT_EQ(received, texts);
    };
    run(body());
}

TEST(UdpSocket, ABatchHasLimits) {
    EXPECT_THROW(DatagramBatch(0, 10), std::invalid_argument);
    EXPECT_THROW(DatagramBatch(1025, 10), std::invalid_argument);
    EXPECT_THROW(DatagramBatch(1, 0), std::invalid_argument);
    EXPECT_THROW(DatagramBatch(1024, SIZE_MAX / 1024 + 1), std::invalid_argument) << "1024 of it";
    EXPECT_THROW(DatagramBatch(1, 65'537), std::invalid_argument);
    EXPECT_EQ(DatagramBatch(1024, 1).capacity(), 1024U);
}

TEST(UdpSocket, GroupMembersReceiveMulticast) {
    const auto body = []() -> Task<void> {
        UdpSocket member = UdpSocket::bind(Endpoint::any(0), {.reuse_address = true}).value();
        const std::uint16_t port = member.local_endpoint()->port();
        const Endpoint group = Endpoint::parse("239.255.7.9", port).value();
        EXPECT_TRUE(member.join_multicast(group, "lo"));
        UdpSocket sender = UdpSocket::bind(Endpoint::loopback(0)).value();
        EXPECT_TRUE(sender.multicast_interface("lo"));
        EXPECT_TRUE(sender.multicast_loop(true));
        EXPECT_TRUE(sender.multicast_time_to_live(0)); // it never leaves this machine
        EXPECT_TRUE(co_await sender.send_to("to all", group));
        std::array<char, 16> buffer{};
        EXPECT_EQ((co_await member.receive(buffer))->size, 6U);
        EXPECT_TRUE(member.leave_multicast(group, "lo"));
        EXPECT_EQ(member.leave_multicast(group, "lo").error(), std::errc::address_not_available);
        EXPECT_EQ(sender.multicast_interface("no-such-interface").error(),
                  std::errc::no_such_device);
    };
    run(body());
}

TEST(UdpSocket, WorksOverIpv6) {
    const Result<UdpSocket> probe = UdpSocket::bind(Endpoint::loopback_v6(0));
    if (!probe) {
        GTEST_SKIP() << "no IPv6 loopback here: " << probe.error().message();
    }
    const auto body = []() -> Task<void> {
        UdpSocket left = UdpSocket::bind(Endpoint::loopback_v6(0), {.v6_only = true}).value();
        UdpSocket right = UdpSocket::bind(Endpoint::loopback_v6(0)).value();
        EXPECT_TRUE(co_await left.send_to("six", right.local_endpoint().value()));
        std::array<char, 16> buffer{};
        const Result<ReceivedDatagram> received = co_await right.receive(buffer);
        EXPECT_EQ(received->sender, left.local_endpoint().value());
    };
    run(body());
}

TEST(UdpSocket, AClosedSocketIsAnError) {
    const auto body = []() -> Task<void> {
        UdpSocket socket;
        std::array<char, 1> buffer{};
        EXPECT_EQ((co_await socket.receive(buffer)).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await socket.send("x")).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ(socket.local_endpoint().error(), std::errc::bad_file_descriptor);
    };
    run(body());
}

} // namespace
