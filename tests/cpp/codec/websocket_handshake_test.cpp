#include <penstock/codec/http/request_parser.hpp>
#include <penstock/codec/http/response_parser.hpp>
#include <penstock/codec/websocket/handshake.hpp>
#include <penstock/codec/websocket/permessage_deflate.hpp>

#include "codec/sha1.hpp"

#include <array>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace {

using namespace penstock::codec;
using namespace penstock::codec::websocket;

std::string hex(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
        for (const int digit : {std::to_integer<int>(byte) >> 4, std::to_integer<int>(byte) & 15}) {
            text.push_back("0123456789abcdef"[digit]);
        }
    }
    return text;
}

TEST(Sha1, HasThePublishedValues) {
    EXPECT_EQ(hex(sha1("")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    EXPECT_EQ(hex(sha1("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
    EXPECT_EQ(hex(sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    EXPECT_EQ(hex(sha1(std::string(1'000'000, 'a'))), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

constexpr std::string_view sample_key = "dGhlIHNhbXBsZSBub25jZQ==";

TEST(WebSocketHandshake, HasTheAcceptOfTheStandard) {
    EXPECT_EQ(AcceptKey(sample_key).text(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(WebSocketHandshake, KeysAreValidAndDiffer) {
    std::set<std::string> keys;
    for (int i = 0; i < 100; ++i) {
        keys.emplace(HandshakeKey().text());
    }
    EXPECT_EQ(keys.size(), 100U);
}

struct Request {
    explicit Request(std::string lines, std::string_view first = "GET /chat HTTP/1.1")
        : text(std::string(first) + "\r\nHost: a\r\n" + std::move(lines) + "\r\n"),
          parser(storage) {
        EXPECT_EQ(parser.parse(text), http::Progress::complete) << text;
    }
    std::array<http::Field, 16> storage;
    std::string text;
    http::RequestParser parser;
};

std::string lines(std::string_view upgrade = "websocket", std::string_view connection = "Upgrade",
                  std::string_view version = "13", std::string_view key = sample_key) {
    std::string text;
    for (const auto& [name, value] :
         {std::pair{"Upgrade", upgrade}, std::pair{"connection", connection},
          std::pair{"SEC-WEBSOCKET-VERSION", version}, std::pair{"Sec-WebSocket-Key", key}}) {
        text += std::string(name) + ": " + std::string(value) + "\r\n";
    }
    return text;
}

HandshakeError check(const std::string& fields, std::string_view first = "GET / HTTP/1.1") {
    return check_request(Request(fields, first).parser.head());
}

TEST(WebSocketHandshake, OfAClientIsChecked) {
    EXPECT_EQ(check(lines()), HandshakeError::none);
    EXPECT_EQ(check(lines("WebSocket", "keep-alive, UPGRADE")), HandshakeError::none);
    EXPECT_EQ(check(lines(), "POST / HTTP/1.1"), HandshakeError::invalid_method);
    EXPECT_EQ(check(lines(), "GET / HTTP/1.0"), HandshakeError::unsupported_http);
    EXPECT_EQ(check(lines("h2c")), HandshakeError::missing_upgrade);
    EXPECT_EQ(check(lines("websocket", "close")), HandshakeError::missing_connection);
    EXPECT_EQ(check(lines("websocket", "Upgrade", "8")), HandshakeError::unsupported_version);
    EXPECT_EQ(check(lines("websocket", "Upgrade", "13", "short==")), HandshakeError::invalid_key);
    EXPECT_EQ(check(lines("websocket", "Upgrade", "13", "dGhlIHNhbXBsZSBub25jZQ=*")),
              HandshakeError::invalid_key);
    EXPECT_EQ(check(lines() + "Sec-WebSocket-Key: " + std::string(sample_key) + "\r\n"),
              HandshakeError::invalid_key);
    EXPECT_EQ(check(lines() + "Content-Length: 1\r\n"), HandshakeError::unexpected_body);
}

TEST(WebSocketHandshake, SelectsTheClientsFirstSupportedSubprotocol) {
    const Request request("Sec-WebSocket-Protocol: a, b\r\nSec-WebSocket-Protocol: c\r\n");
    const std::array<std::string_view, 2> supported{"c", "b"};
    EXPECT_EQ(select_subprotocol(request.parser.head().fields, supported), "b");
    EXPECT_EQ(select_subprotocol(request.parser.head().fields, {}), "");
}

TEST(WebSocketHandshake, OfBothEndsFits) {
    std::array<char, 512> buffer;
    const HandshakeKey key;
    http::HeadWriter head(buffer);
    write_request(head, "/chat", key.text());
    head.field("Host", "a").end();
    std::array<http::Field, 16> storage;
    http::RequestParser requests(storage);
    ASSERT_EQ(requests.parse(head.text()), http::Progress::complete);
    ASSERT_EQ(check_request(requests.head()), HandshakeError::none);
    EXPECT_EQ(key_of(requests.head()), key.text());

    std::array<char, 512> answer;
    const auto respond = [&](std::string_view extra, std::span<const std::string_view> offered) {
        http::HeadWriter response(answer);
        write_response(response, key.text());
        if (!extra.empty()) {
            response.field("Sec-WebSocket-Protocol", extra);
        }
        response.end();
        http::ResponseParser responses(storage);
        EXPECT_EQ(responses.parse(response.text()), http::Progress::complete);
        return check_response(responses.head(), key.text(), offered);
    };
    const std::array<std::string_view, 1> offered{"chat"};
    EXPECT_EQ(respond("", {}), HandshakeError::none);
    EXPECT_EQ(respond("chat", offered), HandshakeError::none);
    EXPECT_EQ(respond("other", offered), HandshakeError::invalid_subprotocol);
    EXPECT_EQ(respond("chat", {}), HandshakeError::invalid_subprotocol);
    http::ResponseParser responses(storage);
    http::HeadWriter wrong(answer);
    write_response(wrong, sample_key);
    wrong.end();
    ASSERT_EQ(responses.parse(wrong.text()), http::Progress::complete);
    EXPECT_EQ(check_response(responses.head(), key.text()), HandshakeError::invalid_accept);
    ASSERT_EQ(responses.parse("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
              http::Progress::complete);
    EXPECT_EQ(check_response(responses.head(), key.text()), HandshakeError::unexpected_status);
}

// RFC 6455, 4.1: "websocket" is the whole value in a response.
TEST(WebSocketHandshake, ResponseNamesNoOtherProtocol) {
    const auto error_of = [](std::string_view version, std::string_view upgrade) {
        std::array<http::Field, 16> storage;
        http::ResponseParser responses(storage);
        const std::string text =
            std::string(version) + " 101 Switching Protocols\r\n" + std::string(upgrade) +
            "Connection: Upgrade\r\n" +
            "Sec-WebSocket-Accept: " + std::string(AcceptKey(sample_key).text()) + "\r\n\r\n";
        EXPECT_EQ(responses.parse(text), http::Progress::complete);
        return check_response(responses.head(), sample_key);
    };
    EXPECT_EQ(error_of("HTTP/1.1", "Upgrade: WebSocket\r\n"), HandshakeError::none);
    EXPECT_EQ(error_of("HTTP/1.1", "Upgrade: websocket, foo\r\n"), HandshakeError::missing_upgrade);
    EXPECT_EQ(error_of("HTTP/1.1", "Upgrade: websocket\r\nUpgrade: websocket\r\n"),
              HandshakeError::missing_upgrade);
    EXPECT_EQ(error_of("HTTP/1.0", "Upgrade: websocket\r\n"), HandshakeError::unsupported_http);
}

std::string offer(std::string_view extensions, const DeflateParameters& wanted = {}) {
    const Request request("Sec-WebSocket-Extensions: " + std::string(extensions) + "\r\n");
    const auto agreement = accept_offer(request.parser.head().fields, wanted);
    return agreement ? agreement->response : "declined";
}

TEST(PermessageDeflate, OffersAreAcceptedOrDeclined) {
    EXPECT_EQ(offer("permessage-deflate"), "permessage-deflate");
    EXPECT_EQ(offer("permessage-deflate; client_max_window_bits"), "permessage-deflate");
    EXPECT_EQ(offer("x-webkit, permessage-deflate;server_no_context_takeover"),
              "permessage-deflate; server_no_context_takeover");
    EXPECT_EQ(offer("permessage-deflate; server_max_window_bits=10; client_max_window_bits=\"12\""),
              "permessage-deflate; server_max_window_bits=10; client_max_window_bits=12");
    // The second offer is a fallback.
    EXPECT_EQ(offer("permessage-deflate; unknown, permessage-deflate"), "permessage-deflate");
    for (const std::string_view bad :
         {"x", "permessage-deflate; server_max_window_bits",
          "permessage-deflate; server_max_window_bits=7",
          "permessage-deflate; server_max_window_bits=16",
          "permessage-deflate; server_max_window_bits=09",
          "permessage-deflate; server_no_context_takeover=1",
          "permessage-deflate; server_no_context_takeover; server_no_context_takeover"}) {
        EXPECT_EQ(offer(bad), "declined") << bad;
    }
    const DeflateParameters narrow{.client_no_context_takeover = true,
                                   .server_max_window_bits = 11,
                                   .client_max_window_bits = 9};
    EXPECT_EQ(offer("permessage-deflate", narrow), "declined");
    EXPECT_EQ(offer("permessage-deflate; client_max_window_bits", narrow),
              "permessage-deflate; client_no_context_takeover; server_max_window_bits=11; "
              "client_max_window_bits=9");
}

DeflateAnswer answer(std::string_view extensions,
                     const std::optional<DeflateParameters>& offered = DeflateParameters{}) {
    std::array<http::Field, 4> storage;
    http::ResponseParser parser(storage);
    const std::string text =
        "HTTP/1.1 101 S\r\nSec-WebSocket-Extensions: " + std::string(extensions) + "\r\n\r\n";
    EXPECT_EQ(parser.parse(text), http::Progress::complete);
    return check_answer(parser.head().fields, offered);
}

TEST(PermessageDeflate, AnswersAreCheckedAgainstTheOffer) {
    EXPECT_EQ(make_offer(), "permessage-deflate; client_max_window_bits");
    EXPECT_EQ(answer("permessage-deflate").parameters, DeflateParameters{});
    EXPECT_EQ(answer("permessage-deflate; client_max_window_bits=9; server_no_context_takeover")
                  .parameters,
              (DeflateParameters{.server_no_context_takeover = true, .client_max_window_bits = 9}));
    EXPECT_FALSE(answer("permessage-deflate", std::nullopt).valid);
    EXPECT_FALSE(answer("other").valid);
    EXPECT_FALSE(answer("permessage-deflate, permessage-deflate").valid);
    EXPECT_FALSE(answer("permessage-deflate; client_max_window_bits").valid);
    EXPECT_FALSE(answer("permessage-deflate; unknown").valid);
    EXPECT_FALSE(
        answer("permessage-deflate", DeflateParameters{.server_no_context_takeover = true}).valid);
    EXPECT_FALSE(
        answer("permessage-deflate", DeflateParameters{.server_max_window_bits = 10}).valid);
    EXPECT_FALSE(answer("; x").valid);
    EXPECT_TRUE(check_answer(http::Fields{}, DeflateParameters{}).valid);
    EXPECT_FALSE(check_answer(http::Fields{}, DeflateParameters{}).parameters.has_value());
}

} // namespace
