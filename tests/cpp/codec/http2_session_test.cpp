// The HTTP/2 session of a server, with frames written by hand.

#include <penstock/codec/http2/server_session.hpp>

#include <chrono>
#include <string>

#include <gtest/gtest.h>

using namespace penstock::codec;
using namespace std::chrono_literals;

namespace {

std::string frame(char type, char flags, char stream, std::string_view payload) {
    const auto size = payload.size();
    const std::string head = {static_cast<char>(size >> 16),
                              static_cast<char>(size >> 8),
                              static_cast<char>(size),
                              type,
                              flags,
                              0,
                              0,
                              0,
                              stream};
    return head + std::string(payload);
}

/// GET http://a/, by the static table.
const std::string get = "\x82\x86\x84\x41\x01"
                        "a";

std::string begin() {
    return std::string(http2::client_preface) + frame(4, 0, 0, "");
}

class Http2Session : public testing::Test {
protected:
    void SetUp() override {
        if (!http2::is_available()) {
            GTEST_SKIP() << "libnghttp2.so.14 is not installed";
        }
    }

    static std::string output(http2::ServerSession& session) {
        ByteBuffer buffer;
        while (true) {
            const std::size_t before = buffer.size();
            session.produce(buffer, before + 1000);
            if (buffer.size() == before) {
                break;
            }
        }
        return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size()};
    }
};

TEST_F(Http2Session, ARequestInPiecesIsAnsweredAndReleased) {
    http2::ServerSession session{http2::Limits{}};
    http2::Stream* stream = nullptr;
    for (const char byte : begin() + frame(1, 5, 1, get)) {
        ASSERT_TRUE(session.receive({&byte, 1}, 1s));
        if (http2::Stream* changed = session.next_change()) {
            EXPECT_EQ(stream, nullptr);
            stream = changed;
        }
    }
    ASSERT_NE(stream, nullptr);
    EXPECT_TRUE(stream->take_new());
    EXPECT_FALSE(stream->take_new());
    EXPECT_TRUE(stream->request_ended());
    const auto head = session.head(*stream);
    ASSERT_EQ(head.size(), 4U);
    EXPECT_EQ(head[3].name, ":authority");
    EXPECT_EQ(head[3].value, "a");
    session.respond(*stream, 200, {}, false);
    session.write(*stream, "hello");
    session.finish(*stream);
    EXPECT_NE(output(session).find("hello"), std::string::npos);
    ASSERT_EQ(session.next_change(), stream);
    EXPECT_TRUE(stream->is_closed());
    session.release(*stream);
    EXPECT_EQ(session.open_streams(), 0U);
    session.go_away(http2::ErrorCode::no_error);
    output(session);
    EXPECT_TRUE(session.is_finished());
}

TEST_F(Http2Session, AnotherBeginningIsRefused) {
    http2::ServerSession session{http2::Limits{}};
    EXPECT_FALSE(session.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1s));
    EXPECT_FALSE(session.failure().empty());
}

TEST_F(Http2Session, ARateAllowsForMoreAsTimePasses) {
    http2::Limits limits;
    limits.control_frames = {.burst = 10, .a_second = 10};
    http2::ServerSession session(limits);
    ASSERT_TRUE(session.receive(begin(), 1s));
    const std::string ping = frame(6, 0, 0, "12345678");
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(session.receive(ping, 1s + i * 200ms)) << i;
        output(session);
    }
    bool received = true;
    for (int i = 0; i < 20; ++i) {
        received = session.receive(ping, 60s);
    }
    EXPECT_FALSE(received);
    // GOAWAY with the last stream, 0, and ENHANCE_YOUR_CALM.
    EXPECT_TRUE(output(session).ends_with(std::string_view("\7\0\0\0\0\0\0\0\0\0\0\0\0\x0b", 14)));
}

} // namespace
