// Certificates that are replaced while a server runs, and the keys of its session tickets.

#include <penstock/tls/context.hpp>
#include <penstock/tls/ticket_keys.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/tls/tls_test.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace penstock;
using penstock::testing::Authority;
using penstock::testing::expect;
using penstock::testing::shake_hands;
using penstock::testing::TemporaryFolder;
using tls::Context;
using tls::TicketKeys;

constexpr std::array versions{tls::Version::tls_1_2, tls::Version::tls_1_3};

class TlsReload : public penstock::testing::TlsTest {
protected:
    /// What the client of a connection has seen.
    struct Seen {
        std::string certificate;
        bool resumed = false;
    };

    /// One connection, over which the server says something, as tickets come with that.
    static Seen connect(const Context& clients, const Context& servers) {
        Seen seen;
        const auto program = [&]() -> Task<Result<>> {
            auto [near, far] = MemoryStream::pair();
            auto connection =
                co_await unwrap(shake_hands(std::move(near), std::move(far), clients, servers));
            co_await unwrap(connection.server.write_all(std::string_view("x")));
            std::array<char, 1> byte{};
            (void)co_await unwrap(connection.client.read(byte));
            seen.certificate = connection.client.peer_certificate().value_or("");
            seen.resumed = connection.client.session_resumed();
            EXPECT_EQ(connection.server.session_resumed(), seen.resumed);
            co_return Result<>();
        };
        expect(run(program()));
        return seen;
    }

    Context::ServerOptions renewed() { return {.identity = authority.sign("DNS:localhost")}; }
};

TEST_F(TlsReload, LaterConnectionsGetTheNewCertificateAndEarlierOnesGoOn) {
    const Context servers = server();
    const Context copy = servers;
    const auto program = [&]() -> Task<Result<>> {
        auto [near, far] = MemoryStream::pair();
        auto earlier = co_await unwrap(
            shake_hands(std::move(near), std::move(far), client({.sessions = 0}), servers));
        const auto before = earlier.client.peer_certificate();
        co_await unwrap(copy.reload(renewed()));
        auto [a, b] = MemoryStream::pair();
        auto later = co_await unwrap(
            shake_hands(std::move(a), std::move(b), client({.sessions = 0}), servers));
        EXPECT_NE(later.client.peer_certificate(), before);
        co_await unwrap(earlier.server.write_all(std::string_view("still")));
        std::array<char, 5> text{};
        (void)co_await unwrap(earlier.client.read(text));
        EXPECT_EQ(std::string(text.data(), text.size()), "still");
        co_return Result<>();
    };
    expect(run(program()));
}

TEST_F(TlsReload, AfterAnErrorAllStaysAsItWas) {
    const Context servers = server();
    const Context clients = client({.sessions = 0});
    const std::string before = connect(clients, servers).certificate;
    Context::ServerOptions mixed = renewed();
    mixed.identity.private_key_file = authority.sign("DNS:localhost").private_key_file;
    EXPECT_FALSE(servers.reload(mixed));
    EXPECT_FALSE(servers.reload({.identity = {.certificate_chain_file = "/nowhere"}}));
    EXPECT_EQ(connect(clients, servers).certificate, before);
}

TEST_F(TlsReload, OnlyTheContextOfAServerIsReloaded) {
    EXPECT_EQ(client().reload(renewed()).error(), std::errc::operation_not_supported);
}

TEST_F(TlsReload, ASessionOutlivesTheReload) {
    for (const tls::Version version : versions) {
        const Context servers = server();
        const Context clients = client({.newest = version});
        EXPECT_FALSE(connect(clients, servers).resumed);
        expect(servers.reload(renewed()));
        EXPECT_TRUE(connect(clients, servers).resumed);
    }
}

TEST_F(TlsReload, ASessionEndsWhenOtherClientsAreTrusted) {
    const Authority others;
    for (const tls::Version version : versions) {
        Context::ServerOptions options = renewed();
        options.client_authorities_file = authority.file();
        options.ticket_keys = expect(TicketKeys::random());
        const Context servers = expect(Context::server(options));
        const Context clients =
            client({.identity = authority.sign("DNS:client"), .newest = version});
        EXPECT_FALSE(connect(clients, servers).resumed);
        EXPECT_TRUE(connect(clients, servers).resumed);
        options.client_authorities_file = others.file();
        options.require_client_certificate = false;
        expect(servers.reload(options));
        const auto program = [&]() -> Task<Result<>> {
            auto [near, far] = MemoryStream::pair();
            const auto connection =
                co_await shake_hands(std::move(near), std::move(far), clients, servers);
            EXPECT_FALSE(connection); // its certificate is looked at again, and refused
            co_return Result<>();
        };
        expect(run(program()));
    }
}

TEST_F(TlsReload, ServersWithTheSameTicketKeysResumeEachOthersSessions) {
    for (const tls::Version version : versions) {
        Context::ServerOptions options = renewed();
        const Context alone = expect(Context::server(options));
        options.ticket_keys = expect(TicketKeys::random());
        const Context one = expect(Context::server(options));
        const Context other = expect(Context::server(options));
        const Context clients = client({.newest = version});
        EXPECT_FALSE(connect(clients, one).resumed);
        EXPECT_TRUE(connect(clients, other).resumed);
        EXPECT_FALSE(connect(clients, alone).resumed);
    }
}

TEST_F(TlsReload, ATicketIsGoodUntilItsKeyHasBeenReplacedThreeTimes) {
    Context::ServerOptions options = renewed();
    options.ticket_keys = expect(TicketKeys::random());
    const Context servers = expect(Context::server(options));
    for (const int rotations : {1, 2, 3}) {
        const Context clients = client({.newest = tls::Version::tls_1_2});
        EXPECT_FALSE(connect(clients, servers).resumed);
        for (int i = 0; i < rotations; ++i) {
            expect(options.ticket_keys->rotate());
        }
        EXPECT_EQ(connect(clients, servers).resumed, rotations < 3) << rotations;
        // With an old key it has got a new ticket.
        expect(options.ticket_keys->rotate());
        expect(options.ticket_keys->rotate());
        EXPECT_TRUE(connect(clients, servers).resumed) << rotations;
    }
}

TEST_F(TlsReload, KeysThatWereMovedFromAreNone) {
    TicketKeys keys = expect(TicketKeys::random());
    const TicketKeys taken = std::move(keys);
    expect(taken.rotate());
    EXPECT_EQ(keys.rotate().error(),
              std::errc::invalid_argument); // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(keys.reload({"file"}).error(), std::errc::invalid_argument);
    Context::ServerOptions options = renewed();
    options.ticket_keys = keys;
    const Context servers = expect(Context::server(options));
    EXPECT_FALSE(connect(client(), servers).resumed);
}

TEST_F(TlsReload, ProcessesShareTicketKeysByFiles) {
    TemporaryFolder folder;
    folder.fill("one", std::string(80, '1'));
    folder.fill("two", std::string(80, '2'));
    folder.fill("short", std::string(48, '3'));
    folder.fill("long", std::string(81, '4'));
    const auto keys = [&](std::initializer_list<const char*> names) {
        std::vector<std::string> files;
        for (const char* name : names) {
            files.push_back(folder.path(name));
        }
        return files;
    };
    Context::ServerOptions options = renewed();
    options.ticket_keys = expect(TicketKeys::from_files(keys({"one"})));
    const Context one = expect(Context::server(options));
    const TicketKeys second = expect(TicketKeys::from_files(keys({"two", "one"})));
    options.ticket_keys = second;
    const Context other = expect(Context::server(options));
    const Context clients = client({.newest = tls::Version::tls_1_2});
    EXPECT_FALSE(connect(clients, one).resumed);
    EXPECT_TRUE(connect(clients, other).resumed); // and has got a ticket with the second key
    EXPECT_FALSE(connect(clients, one).resumed);
    EXPECT_TRUE(connect(clients, other).resumed);
    expect(second.reload(keys({"two"})));
    EXPECT_TRUE(connect(clients, other).resumed);

    EXPECT_EQ(second.rotate().error(), std::errc::operation_not_supported);
    EXPECT_EQ(second.reload(keys({"short"})).error(), std::errc::invalid_argument);
    EXPECT_EQ(second.reload(keys({"nothing"})).error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(TicketKeys::from_files(keys({"long"})).error(), std::errc::invalid_argument);
    EXPECT_EQ(TicketKeys::from_files({}).error(), std::errc::invalid_argument);
    EXPECT_EQ(expect(TicketKeys::random()).reload(keys({"one"})).error(),
              std::errc::operation_not_supported);
    EXPECT_TRUE(connect(clients, other).resumed);
}

} // namespace
