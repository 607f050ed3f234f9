// Servers that choose a context by the name that a client asks for.

#include <penstock/tls/stream.hpp>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>
#include <openssl/x509_vfy.h>

#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/tls/tls_test.hpp"

namespace {

namespace tls = penstock::tls;
using penstock::MemoryStream;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::testing::shake_hands;
using penstock::testing::TlsPair;
using penstock::testing::TlsTest;
using tls::Context;

Task<Result<TlsPair<MemoryStream>>> in_memory(Context client, Context server, std::string name) {
    auto [near, far] = MemoryStream::pair();
    return shake_hands(std::move(near), std::move(far), std::move(client), std::move(server),
                       std::move(name));
}

class TlsServerName : public TlsTest {
protected:
    Context first = server({.alpn = {"h2"}}, "DNS:first.example");
    Context second = server({.alpn = {"http/1.1"}}, "DNS:second.example");
    Context choosing =
        server({.alpn = {"h2"}, .select = [this](std::string_view name) -> std::optional<Context> {
                    if (name == "first.example") {
                        return first;
                    }
                    if (name == "second.example") {
                        return second;
                    }
                    return std::nullopt;
                }});
};

TEST_F(TlsServerName, SelectsTheCertificateAndTheProtocols) {
    const auto program = [&]() -> Task<Result<>> {
        const Context clients = client({.alpn = {"h2", "http/1.1"}});
        for (const std::string name : {"first.example", "second.example", "localhost"}) {
            const auto pair = co_await unwrap(in_memory(clients, choosing, name));
            EXPECT_EQ(pair.server.server_name(), name);
            EXPECT_EQ(pair.client.alpn(), name == "second.example" ? "http/1.1" : "h2");
        }
        // The choosing context's own certificate is for none of the other names.
        EXPECT_EQ(co_await refusal(client(), choosing, "third.example"),
                  std::error_code(X509_V_ERR_HOSTNAME_MISMATCH, tls::certificate_category()));
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsServerName, WithoutANameTheServerIsAskedTo) {
    const auto program = [&]() -> Task<Result<>> {
        std::optional<std::string> asked;
        const Context any = server({.select = [&](std::string_view name) -> std::optional<Context> {
            asked = name;
            return std::nullopt;
        }});
        const auto pair = co_await unwrap(in_memory(client({.verify = false}), any, ""));
        EXPECT_EQ(asked, "");
        EXPECT_EQ(pair.server.server_name(), "");
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

// What a context demands holds for who asks for its name: whom it verifies, and versions.
TEST_F(TlsServerName, SelectsWhomTheServerVerifiesAndVersions) {
    const auto program = [&]() -> Task<Result<>> {
        Context inner =
            server({.client_authorities_file = authority.file(), .oldest = tls::Version::tls_1_3},
                   "DNS:inner.example");
        Context outer =
            server({.select = [&](std::string_view name) -> std::optional<Context> {
                       return name == "inner.example" ? std::optional(inner) : std::nullopt;
                   }},
                   "DNS:localhost");
        const Context anonymous = client();
        EXPECT_TRUE(co_await in_memory(anonymous, outer, "localhost"));
        EXPECT_FALSE(co_await in_memory(anonymous, outer, "inner.example"));
        const Context known = client({.identity = authority.sign("DNS:client")});
        const auto pair = co_await in_memory(known, outer, "inner.example");
        EXPECT_TRUE(pair && pair->server.peer_certificate());
        EXPECT_FALSE(co_await in_memory(
            client({.identity = authority.sign("DNS:client"), .newest = tls::Version::tls_1_2}),
            outer, "inner.example"));
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsServerName, SessionsAreResumedUnderTheirNameOnly) {
    for (const tls::Version version : {tls::Version::tls_1_2, tls::Version::tls_1_3}) {
        const auto program = [&]() -> Task<Result<>> {
            const Context clients = client({.newest = version});
            for (const bool resumed : {false, true}) {
                for (const std::string name : {"first.example", "second.example"}) {
                    auto pair = co_await unwrap(in_memory(clients, choosing, name));
                    EXPECT_EQ(pair.client.session_resumed(), resumed) << name;
                    EXPECT_EQ(pair.server.server_name(), name);
                    co_await unwrap(pair.server.write_all("x")); // after the tickets of TLS 1.3
                    std::array<char, 1> byte{};
                    co_await unwrap(pair.client.read(byte));
                }
            }
            co_return Result<>();
        };
        EXPECT_TRUE(run(program()));
    }
}

TEST_F(TlsServerName, AnExceptionOfTheSelectionEndsTheHandshake) {
    const auto program = [&]() -> Task<> {
        const Context throws = server({.select = [](std::string_view) -> std::optional<Context> {
            throw std::runtime_error("no such file");
        }});
        auto [near, far] = MemoryStream::pair();
        const auto accepts = [](MemoryStream stream, Context context) -> Task<Result<>> {
            EXPECT_THROW((void)co_await tls::Stream<MemoryStream>::accept(std::move(stream),
                                                                          std::move(context)),
                         std::runtime_error);
            co_return Result<>();
        };
        const auto both = co_await penstock::all_settled(
            tls::Stream<MemoryStream>::connect(std::move(near), client(), "localhost"),
            accepts(std::move(far), throws));
        EXPECT_FALSE(std::get<0>(both)); // it got the alert, or the end
    };
    run(program());
}

} // namespace
