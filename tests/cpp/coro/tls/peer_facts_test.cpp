// What a server knows of an encrypted connection: what was agreed on, and who the client is.

#include <penstock/http/server.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/sleep.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/stream/encryption.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/http/running_server.hpp"
#include "coro/tls/tls_test.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using http::Request;
using http::Response;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::shake_hands;
using Name = VerifiedPeer::Name;
using Kind = Name::Kind;
using TlsStream = tls::Stream<net::TcpStream>;

constexpr const char* request_text = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

class PeerFacts : public penstock::testing::TlsTest {
protected:
    /// Runs `talk(stream)` with an encrypted connection to the server.
    template <typename Talk>
    void serve(http::Server& site, const tls::Context& servers, const tls::Context& clients,
               Talk talk) {
        const auto program = [&]() -> Task<> {
            auto pair = co_await penstock::testing::connect_pair();
            auto both = expect(
                co_await shake_hands(std::move(pair.near), std::move(pair.far), clients, servers));
            const auto talking = [&]() -> Task<Result<>> {
                co_await talk(both.client);
                both.client.close();
                co_return Result<>();
            };
            expect(co_await all(with_success(site.serve_connection(std::move(both.server))),
                                talking()));
        };
        run(program());
    }

    static Task<Result<>> with_success(Task<void> task) {
        co_await std::move(task);
        co_return Result<>();
    }
};

TEST_F(PeerFacts, AHandlerLearnsWhatWasAgreedOnAndWhoAsks) {
    const tls::Context servers =
        server({.alpn = {"http/1.1"}, .client_authorities_file = authority.file()});
    const tls::Context clients =
        client({.identity = authority.sign("DNS:reader.example,IP:192.0.2.1,IP:2001:db8::1,"
                                           "email:reader@example.org,URI:urn:lab:reader"),
                .alpn = {"http/1.1"}});
    http::Server site;
    std::string version;
    std::string cipher;
    std::string alpn;
    std::string name;
    std::optional<VerifiedPeer> peer;
    site.get("/", [&](Request& request, Response& response) {
        const auto encryption = request.encryption();
        ASSERT_TRUE(encryption);
        version = encryption->version;
        cipher = encryption->cipher;
        alpn = encryption->alpn;
        name = encryption->server_name;
        peer = request.client_certificate();
        response.body("hello");
    });
    serve(site, servers, clients, [](TlsStream& stream) -> Task<void> {
        expect(co_await stream.write_all(std::string_view(request_text)));
        (void)co_await read_until(stream, "hello");
    });
    EXPECT_EQ(version, "TLSv1.3");
    EXPECT_TRUE(cipher.starts_with("TLS_"));
    EXPECT_EQ(alpn, "http/1.1");
    EXPECT_EQ(name, "localhost");
    ASSERT_TRUE(peer);
    EXPECT_EQ(peer->subject, "CN=Test");
    const std::vector<Name> names{{.kind = Kind::dns, .text = "reader.example"},
                                  {.kind = Kind::address, .text = "192.0.2.1"},
                                  {.kind = Kind::address, .text = "2001:db8::1"},
                                  {.kind = Kind::email, .text = "reader@example.org"},
                                  {.kind = Kind::uri, .text = "urn:lab:reader"}};
    EXPECT_EQ(peer->names, names);
}

TEST_F(PeerFacts, WhoWasNotVerifiedIsNobody) {
    const auto program = [&]() -> Task<Result<>> {
        for (const bool asked : {false, true}) {
            tls::Context::ServerOptions options;
            if (asked) {
                options.client_authorities_file = authority.file();
                options.require_client_certificate = false;
            }
            auto [near, far] = MemoryStream::pair();
            const auto connection = co_await unwrap(
                shake_hands(std::move(near), std::move(far), client(), server(options)));
            EXPECT_FALSE(connection.server.verified_peer());
            EXPECT_TRUE(connection.client.verified_peer()); // the client has looked
        }
        auto [near, far] = MemoryStream::pair();
        const auto blind = co_await unwrap(
            shake_hands(std::move(near), std::move(far), client({.verify = false}), server()));
        EXPECT_FALSE(blind.client.verified_peer());
        EXPECT_TRUE(blind.client.peer_certificate());
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(PeerFacts, TheEndOfTheSocketBelowEndsAHandlerThatWaits) {
    http::Server site({.timeouts = {.half_closed = 1ms}});
    sync::Event begun;
    std::error_code told;
    site.get("/", [&](Request& /*request*/, Response& /*response*/) -> Task<Result<>> {
        begun.set();
        const Result<> slept = co_await sleep_for(std::chrono::hours(24));
        told = slept.error();
        co_return slept;
    });
    serve(site, server(), client(), [&](TlsStream& stream) -> Task<void> {
        expect(co_await stream.write_all(std::string_view(request_text)));
        expect(co_await begun.wait());
    });
    EXPECT_EQ(told, std::errc::operation_canceled);
}

} // namespace
