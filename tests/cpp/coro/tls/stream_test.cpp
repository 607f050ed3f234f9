#include <penstock/tls/stream.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/x509_vfy.h>

#include <penstock/process/command.hpp>
#include <penstock/stream/buf_reader.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/tls/tls_test.hpp"
#include "support/temporary_folder.hpp"

namespace {

namespace tls = penstock::tls;
using namespace std::chrono_literals;
using penstock::Bytes;
using penstock::MemoryStream;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::net::TcpStream;
using penstock::testing::Authority;
using penstock::testing::connect_pair;
using penstock::testing::pattern;
using penstock::testing::shake_hands;
using penstock::testing::TcpPair;
using penstock::testing::TlsTest;
using penstock::tls::Context;

static_assert(penstock::Stream<tls::Stream<TcpStream>>);
static_assert(penstock::Stream<tls::Stream<MemoryStream&>>);

class TlsStream : public TlsTest {};

TEST_F(TlsStream, CarriesBytesBothWaysOverAnyStream) {
    for (const tls::Version version : {tls::Version::tls_1_2, tls::Version::tls_1_3}) {
        for (const std::size_t capacity : {1'000, 100'000}) {
            const std::vector<std::byte> sent = pattern(capacity * 3);
            const auto program = [&]() -> Task<Result<>> {
                auto [near, far] = MemoryStream::pair(capacity);
                auto connection = co_await unwrap(shake_hands(
                    std::move(near), std::move(far), client({.newest = version}), server()));
                EXPECT_EQ(connection.client.version(),
                          version == tls::Version::tls_1_2 ? "TLSv1.2" : "TLSv1.3");
                EXPECT_FALSE(connection.client.cipher().empty());
                const auto sends = [&]() -> Task<Result<>> {
                    co_await unwrap(connection.client.write_all(sent));
                    co_return co_await connection.client.shutdown();
                };
                const auto echoes = [&]() -> Task<Result<>> {
                    co_await unwrap(penstock::copy(connection.server, connection.server));
                    co_return co_await connection.server.shutdown();
                };
                const auto all = co_await unwrap(
                    penstock::all(sends(), echoes(), penstock::read_all(connection.client)));
                EXPECT_EQ(std::get<2>(all), sent);
                co_return Result<>();
            };
            EXPECT_TRUE(run(program()));
        }
    }
}

TEST_F(TlsStream, SendsSmallPartsInOneRecord) {
    const auto program = [&]() -> Task<Result<>> {
        auto [near, far] = MemoryStream::pair();
        auto connection =
            co_await unwrap(shake_hands(std::move(near), std::move(far), client(), server()));
        co_await unwrap(connection.client.write_all("head ", "", "body"));
        std::array<char, 100> text{};
        const std::size_t count = co_await unwrap(connection.server.read(text));
        EXPECT_EQ(std::string_view(text.data(), count), "head body");
        const std::string large(100'000, 'x');
        const auto both = co_await unwrap(
            penstock::all(connection.client.write_all("head", large, "tail"),
                          [](auto& server, std::size_t size) -> Task<Result<std::string>> {
                              std::string read(size, '\0');
                              std::size_t done = 0;
                              while (done < size) {
                                  done += co_await unwrap(server.read(penstock::MutableBytes(
                                      read.data() + done, read.size() - done)));
                              }
                              co_return read;
                          }(connection.server, large.size() + 8)));
        EXPECT_EQ(std::get<1>(both), "head" + large + "tail");
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsStream, RefusesCertificates) {
    const auto program = [&]() -> Task<> {
        const auto x509 = [](int code) {
            return std::error_code(code, tls::certificate_category());
        };
        EXPECT_EQ(co_await refusal(client(), server(), "localhost"), std::error_code());
        EXPECT_EQ(co_await refusal(client(), server(), "example.org"),
                  x509(X509_V_ERR_HOSTNAME_MISMATCH));
        EXPECT_EQ(co_await refusal(client(), server({}, "IP:127.0.0.1"), "127.0.0.1"),
                  std::error_code());
        EXPECT_EQ(co_await refusal(client(), server({}, "IP:127.0.0.1"), "127.0.0.2"),
                  x509(X509_V_ERR_IP_ADDRESS_MISMATCH));
        const Authority other;
        // Both authorities have the same name.
        EXPECT_EQ(
            co_await refusal(client({.authorities_file = other.file()}), server(), "localhost"),
            x509(X509_V_ERR_CERT_SIGNATURE_FAILURE));
        Context expired =
            Context::server({.identity = authority.sign("DNS:localhost", -1)}).value();
        EXPECT_EQ(co_await refusal(client(), expired, "localhost"),
                  x509(X509_V_ERR_CERT_HAS_EXPIRED));
        EXPECT_EQ(co_await refusal(client({.verify = false}), expired, ""), std::error_code());
        EXPECT_EQ(co_await refusal(client(), server(), ""), tls::Error::no_certificate_name);
    };
    run(program());
}

TEST_F(TlsStream, NegotiatesAProtocol) {
    const auto program = [&]() -> Task<Result<>> {
        Context both = server({.alpn = {"h2", "http/1.1"}});
        auto [near, far] = MemoryStream::pair();
        const auto connection = co_await unwrap(shake_hands(
            std::move(near), std::move(far), client({.alpn = {"http/1.1", "h2"}}), both));
        EXPECT_EQ(connection.client.alpn(), "h2"); // the server's preference
        EXPECT_EQ(connection.server.alpn(), "h2");
        EXPECT_NE(co_await refusal(client({.alpn = {"spdy"}}), both, "localhost"),
                  std::error_code());
        auto [a, b] = MemoryStream::pair();
        const auto none = co_await unwrap(shake_hands(std::move(a), std::move(b), client(), both));
        EXPECT_EQ(none.client.alpn(), "");
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsStream, AsksClientsForACertificate) {
    const auto program = [&]() -> Task<Result<>> {
        Context asks = server({.client_authorities_file = authority.file()});
        auto [near, far] = MemoryStream::pair();
        const auto connection =
            co_await unwrap(shake_hands(std::move(near), std::move(far),
                                        client({.identity = authority.sign("DNS:client")}), asks));
        const auto certificate = connection.server.peer_certificate();
        EXPECT_TRUE(certificate && certificate->starts_with("-----BEGIN CERTIFICATE-----"));
        auto [a, b] = MemoryStream::pair();
        const auto refused = co_await shake_hands(std::move(a), std::move(b), client(), asks);
        EXPECT_FALSE(refused);
        EXPECT_EQ(refused.error().category(), tls::openssl_category());
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsStream, ResumesSessions) {
    for (const tls::Version version : {tls::Version::tls_1_2, tls::Version::tls_1_3}) {
        const auto program = [&]() -> Task<Result<>> {
            Context clients = client({.newest = version});
            Context servers = server();
            for (const bool resumed : {false, true, true}) {
                auto [near, far] = MemoryStream::pair();
                auto connection =
                    co_await unwrap(shake_hands(std::move(near), std::move(far), clients, servers));
                EXPECT_EQ(connection.client.session_resumed(), resumed);
                EXPECT_EQ(connection.server.session_resumed(), resumed);
                // TLS 1.3 sends the session after the handshake.
                co_await unwrap(connection.server.write_all("x"));
                std::array<char, 1> byte{};
                co_await unwrap(connection.client.read(byte));
            }
            co_return Result<>();
        };
        EXPECT_TRUE(run(program()));
    }
}

TEST_F(TlsStream, TellsTheEndFromACutConnection) {
    const auto program = [&]() -> Task<Result<>> {
        Context clients = client();
        Context servers = server();
        for (const bool cut : {false, true}) {
            TcpPair pair = co_await connect_pair();
            auto connection = co_await unwrap(
                shake_hands(std::move(pair.near), std::move(pair.far), clients, servers));
            if (!cut) {
                co_await unwrap(connection.server.shutdown());
                EXPECT_EQ((co_await connection.server.write_all("late")).error(),
                          std::errc::broken_pipe);
            }
            connection.server.close();
            std::array<char, 1> byte{};
            const Result<std::size_t> count = co_await connection.client.read(byte);
            if (cut) {
                EXPECT_EQ(count.error(), tls::Error::truncated);
            } else {
                EXPECT_EQ(count, 0U);
                EXPECT_EQ(co_await connection.client.read(byte), 0U);
            }
        }
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsStream, ReportsACutHandshakeAndGarbage) {
    const auto program = [&]() -> Task<Result<>> {
        for (const std::string_view answer : {"", "HTTP/1.1 400 Bad Request\r\n\r\n"}) {
            auto [near, far] = MemoryStream::pair();
            co_await unwrap(far.write_all(answer));
            co_await unwrap(far.shutdown());
            const auto refused =
                co_await tls::Stream<MemoryStream>::connect(std::move(near), client(), "localhost");
            if (answer.empty()) {
                EXPECT_EQ(refused.error(), tls::Error::truncated);
            } else {
                EXPECT_EQ(refused.error().category(), tls::openssl_category());
                EXPECT_EQ(refused.error().message(), "wrong version number");
            }
        }
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsStream, ASilentClientIsCancelled) {
    const auto program = [&]() -> Task<Result<>> {
        auto [near, far] = MemoryStream::pair();
        const auto late = co_await penstock::timeout(
            1ms, tls::Stream<MemoryStream>::accept(std::move(far), server()));
        EXPECT_EQ(late.error(), std::errc::timed_out);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsStream, ACancelledWriteBreaksTheStream) {
    const auto program = [&]() -> Task<Result<>> {
        auto [near, far] = MemoryStream::pair(1'000);
        auto connection =
            co_await unwrap(shake_hands(std::move(near), std::move(far), client(), server()));
        const std::vector<std::byte> bytes = pattern(100'000); // nobody reads them
        EXPECT_EQ((co_await penstock::timeout(1ms, connection.client.write_all(bytes))).error(),
                  std::errc::timed_out);
        EXPECT_EQ((co_await connection.client.write_all("more")).error(), tls::Error::broken);
        EXPECT_EQ((co_await connection.client.shutdown()).error(), tls::Error::broken);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

// Reads are cancelled at random moments, writes have random sizes, in both directions at once.
TEST_F(TlsStream, CancelledReadsLoseNothing) {
    const std::vector<std::byte> sent = pattern(200'000);
    const auto writes = [&](tls::Stream<TcpStream>& stream, unsigned seed) -> Task<Result<>> {
        std::mt19937 random(seed);
        for (std::size_t done = 0; done < sent.size();) {
            const std::size_t size = std::min<std::size_t>(random() % 30'000, sent.size() - done);
            co_await unwrap(stream.write_all(Bytes(sent.data() + done, size)));
            done += size;
        }
        co_return co_await stream.shutdown();
    };
    const auto reads = [&](tls::Stream<TcpStream>& stream, unsigned seed) -> Task<Result<>> {
        std::mt19937 random(seed);
        std::vector<std::byte> received;
        std::vector<std::byte> buffer(20'000);
        for (;;) {
            const std::size_t size = 1 + random() % buffer.size();
            const auto count = co_await penstock::timeout(
                std::chrono::microseconds(random() % 50),
                stream.read(penstock::MutableBytes(buffer.data(), size)));
            if (!count && count.error() == std::errc::timed_out) {
                continue;
            }
            if (co_await unwrap(Result<std::size_t>(count)) == 0) {
                break;
            }
            received.insert(received.end(), buffer.begin(),
                            buffer.begin() + static_cast<std::ptrdiff_t>(*count));
        }
        EXPECT_EQ(received, sent);
        co_return Result<>();
    };
    const auto program = [&]() -> Task<Result<>> {
        Context clients = client();
        Context servers = server();
        for (unsigned seed = 1; seed <= 3; ++seed) {
            TcpPair pair = co_await connect_pair();
            auto connection = co_await unwrap(
                shake_hands(std::move(pair.near), std::move(pair.far), clients, servers));
            co_await unwrap(penstock::all(
                writes(connection.client, seed), reads(connection.client, seed + 10),
                writes(connection.server, seed + 20), reads(connection.server, seed + 30)));
        }
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsStream, TalksToOpensslsOwnClient) {
    using penstock::process::Command;
    using penstock::process::Stdio;
    const auto program = [&]() -> Task<Result<>> {
        penstock::net::TcpListener listener = penstock::testing::listen_on_loopback();
        const unsigned port = listener.local_endpoint()->port();
        auto peer = co_await unwrap(
            Command("openssl")
                .arguments({"s_client", "-quiet", "-verify_return_error", "-servername",
                            "localhost", "-verify_hostname", "localhost", "-CAfile",
                            authority.file(), "-connect", "127.0.0.1:" + std::to_string(port)})
                .input(Stdio::pipe())
                .output(Stdio::pipe())
                .error(Stdio::null())
                .kill_on_close()
                .spawn());
        auto stream = co_await unwrap(
            tls::Stream<TcpStream>::accept(co_await unwrap(listener.accept()), server()));
        penstock::BufReader lines(stream);
        co_await unwrap(peer.input.write_all("from the peer\n"));
        EXPECT_EQ(co_await unwrap(lines.line()), "from the peer");
        co_await unwrap(stream.write_all("to the peer\n"));
        co_await unwrap(stream.shutdown());
        EXPECT_EQ(co_await penstock::read_all_text(peer.output), "to the peer\n");
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

// With a ticket the client keeps the session, by its identifier the server does (RFC 5077, 5246).
TEST_F(TlsStream, ResumesSessionsOfOpensslsOwnClient) {
    using penstock::process::Command;
    const penstock::testing::TemporaryFolder folder;
    const std::string session = folder.path("session");
    const auto program = [&]() -> Task<Result<>> {
        penstock::net::TcpListener listener = penstock::testing::listen_on_loopback();
        const std::string port = std::to_string(listener.local_endpoint()->port());
        const Context servers = server();
        const auto serve = [&](bool resumed) -> Task<Result<>> {
            auto stream = co_await unwrap(
                tls::Stream<TcpStream>::accept(co_await unwrap(listener.accept()), servers));
            EXPECT_EQ(stream.session_resumed(), resumed);
            EXPECT_EQ(co_await penstock::read_all_text(stream), "");
            co_return co_await stream.shutdown();
        };
        for (const bool tickets : {true, false}) {
            for (const bool resumed : {false, true, true}) {
                Command client("openssl");
                client.arguments({"s_client", "-tls1_2", "-servername", "localhost", "-CAfile",
                                  authority.file(), "-connect", "127.0.0.1:" + port});
                client.arguments({resumed ? "-sess_in" : "-sess_out", session});
                if (!tickets) {
                    client.argument("-no_ticket");
                }
                const auto both = co_await unwrap(penstock::all(client.output(), serve(resumed)));
                const std::string& text = std::get<0>(both).output;
                EXPECT_TRUE(text.contains(resumed ? "Reused, TLSv1.2" : "New, TLSv1.2")) << text;
            }
        }
        co_return Result<>();
    };
    const Result<> ended = run(program());
    EXPECT_TRUE(ended) << ended.error().message();
}

TEST(TlsContext, RefusesWhatCannotWork) {
    Authority authority;
    EXPECT_EQ(Context::client({.authorities_file = "/nonexistent"}).error(),
              std::errc::no_such_file_or_directory);
    EXPECT_EQ(Context::server({}).error(), std::errc::no_such_file_or_directory);
    const tls::Identity first = authority.sign("DNS:first");
    const tls::Identity second = authority.sign("DNS:second");
    EXPECT_EQ(Context::server({.identity = {.certificate_chain_file = first.certificate_chain_file,
                                            .private_key_file = second.private_key_file}})
                  .error()
                  .category(),
              tls::openssl_category());
    EXPECT_EQ(Context::client({.alpn = {""}}).error(), std::errc::invalid_argument);
    EXPECT_EQ(
        Context::client({.oldest = tls::Version::tls_1_3, .newest = tls::Version::tls_1_2}).error(),
        std::errc::invalid_argument);
    EXPECT_EQ(Context::client({.identity = {.certificate_chain_file = "one only"}}).error(),
              std::errc::invalid_argument);
}

} // namespace
