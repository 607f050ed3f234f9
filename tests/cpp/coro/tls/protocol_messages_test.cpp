// Messages of the protocol after the handshake: new keys, session tickets in pieces, alerts.

#include <penstock/tls/stream.hpp>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/tls/raw_peer.hpp"
#include "coro/tls/tls_test.hpp"

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
using penstock::testing::connect_pair;
using penstock::testing::RawPeer;
using penstock::testing::shake_hands;
using penstock::testing::TcpPair;
using penstock::testing::TlsTest;

template <typename S> Task<Result<std::string>> read_some(tls::Stream<S>& stream) {
    std::array<char, 1000> text{};
    const std::size_t count = co_await unwrap(stream.read(text));
    co_return std::string(text.data(), count);
}

/// A client over `near`, whose peer has the other end.
template <typename S>
Task<Result<tls::Stream<S>>> connect_to(RawPeer<S>& peer, S near, tls::Context clients) {
    auto both = co_await unwrap(
        penstock::all(tls::Stream<S>::connect(std::move(near), std::move(clients), "localhost"),
                      peer.handshake()));
    co_return std::move(std::get<0>(both));
}

class TlsProtocolMessages : public TlsTest {
protected:
    struct FreeContext {
        void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
    };
    using RawContext = std::unique_ptr<SSL_CTX, FreeContext>;

    RawContext raw_context(int newest = TLS1_3_VERSION) {
        RawContext context(SSL_CTX_new(TLS_server_method()));
        const tls::Identity identity = authority.sign("DNS:localhost");
        SSL_CTX_use_certificate_chain_file(context.get(), identity.certificate_chain_file.c_str());
        SSL_CTX_use_PrivateKey_file(context.get(), identity.private_key_file.c_str(),
                                    SSL_FILETYPE_PEM);
        SSL_CTX_set_max_proto_version(context.get(), newest);
        return context;
    }
};

TEST_F(TlsProtocolMessages, KeysAreUpdatedInBothDirections) {
    const auto program = [&]() -> Task<Result<>> {
        TcpPair tcp = co_await connect_pair();
        auto pair = co_await unwrap(
            shake_hands(std::move(tcp.near), std::move(tcp.far), client(), server()));
        for (int round = 0; round < 3; ++round) {
            co_await unwrap(pair.client.update_keys());
            co_await unwrap(pair.client.write_all("question"));
            EXPECT_EQ(co_await unwrap(read_some(pair.server)), "question");
            co_await unwrap(pair.server.write_all("answer"));
            EXPECT_EQ(co_await unwrap(read_some(pair.client)), "answer");
        }
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsProtocolMessages, KeysCannotBeUpdatedInTls12) {
    const auto program = [&]() -> Task<Result<>> {
        auto [near, far] = MemoryStream::pair();
        auto pair = co_await unwrap(shake_hands(
            std::move(near), std::move(far), client({.newest = tls::Version::tls_1_2}), server()));
        EXPECT_EQ((co_await pair.client.update_keys()).error(), std::errc::operation_not_supported);
        co_await unwrap(pair.client.write_all("still there"));
        EXPECT_EQ(co_await unwrap(read_some(pair.server)), "still there");
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

// OpenSSL answers the peer's request with the next write (RFC 8446, section 4.6.3).
template <typename S>
Task<Result<>> answers_a_request_for_new_keys(S near, S far, tls::Context clients,
                                              SSL_CTX* servers) {
    RawPeer<S> peer(far, servers);
    auto stream = co_await unwrap(connect_to(peer, std::move(near), std::move(clients)));
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
        co_await unwrap(peer.write("with new keys"));
        EXPECT_EQ(co_await unwrap(read_some(stream)), "with new keys");
        co_await unwrap(stream.write_all("answer"));
        EXPECT_EQ(co_await unwrap(peer.read()), "answer");
    }
    co_return Result<>();
}

TEST_F(TlsProtocolMessages, ARequestForNewKeysIsAnswered) {
    const auto context = raw_context();
    const auto over_tcp = [&]() -> Task<Result<>> {
        TcpPair tcp = co_await connect_pair();
        co_return co_await answers_a_request_for_new_keys(std::move(tcp.near), std::move(tcp.far),
                                                          client(), context.get());
    };
    EXPECT_TRUE(run(over_tcp()));
    const auto in_memory = [&]() -> Task<Result<>> {
        auto [near, far] = MemoryStream::pair();
        co_return co_await answers_a_request_for_new_keys(std::move(near), std::move(far), client(),
                                                          context.get());
    };
    EXPECT_TRUE(run(in_memory()));
}

// Nothing may follow the end (RFC 8446, section 6.1). A peer that has closed its socket would
// answer it with a reset, which drops what it has sent.
TEST_F(TlsProtocolMessages, ARequestForNewKeysAfterTheEndIsNotAnswered) {
    const auto context = raw_context();
    const auto program = [&]() -> Task<Result<>> {
        TcpPair tcp = co_await connect_pair();
        RawPeer<TcpStream> peer(tcp.far, context.get());
        auto stream = co_await unwrap(connect_to(peer, std::move(tcp.near), client()));
        co_await unwrap(stream.write_all("the end"));
        co_await unwrap(stream.shutdown());
        EXPECT_EQ(co_await unwrap(peer.read()), "the end");
        EXPECT_TRUE(co_await unwrap(peer.reads_end()));
        for (int round = 0; round < 3; ++round) { // OpenSSL reacts to the second one
            EXPECT_EQ(SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
            co_await unwrap(peer.write("with new keys"));
            EXPECT_EQ(co_await unwrap(read_some(stream)), "with new keys");
        }
        EXPECT_EQ(SSL_shutdown(peer.ssl()), 1);
        co_await unwrap(peer.send());
        EXPECT_EQ(co_await unwrap(read_some(stream)), "");
        stream.close();
        std::array<char, 100> more{};
        EXPECT_EQ(co_await unwrap(tcp.far.read(more)), 0U);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

// Some servers replace the ticket each time that it is used, and the old one ends with that.
TEST_F(TlsProtocolMessages, ARenewedTicketIsResumed) {
    const auto context = raw_context(TLS1_2_VERSION);
    const auto make = [](SSL*, void*) { return 1; };
    const auto renew = [](SSL*, SSL_SESSION*, const unsigned char*, std::size_t,
                          SSL_TICKET_STATUS status, void*) -> SSL_TICKET_RETURN {
        return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE_RENEW
                                            : SSL_TICKET_RETURN_IGNORE_RENEW;
    };
    SSL_CTX_set_session_ticket_cb(context.get(), make, renew, nullptr);
    const auto program = [&]() -> Task<Result<>> {
        const tls::Context clients = client();
        for (const bool resumed : {false, true, true, true}) {
            auto [near, far] = MemoryStream::pair();
            RawPeer<MemoryStream> peer(far, context.get());
            const auto stream = co_await unwrap(connect_to(peer, std::move(near), clients));
            EXPECT_EQ(stream.session_resumed(), resumed);
        }
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

// A session ticket that has arrived in part blocks OpenSSL's writing.
TEST_F(TlsProtocolMessages, WritesContinueBehindATicketInPieces) {
    for (const bool while_reading : {false, true}) {
        const auto context = raw_context();
        SSL_CTX_set_max_send_fragment(context.get(), 512);
        SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
        // The certificate of the client makes the ticket longer than a record.
        const auto program = [&]() -> Task<Result<>> {
            auto [near, far] = MemoryStream::pair();
            RawPeer<MemoryStream> peer(far, context.get());
            SSL_set_num_tickets(peer.ssl(), 0);
            auto stream = co_await unwrap(connect_to(
                peer, std::move(near),
                client({.identity = authority.sign(
                            "DNS:client.example,DNS:" + std::string(60, 'x') + ".example")})));
            EXPECT_EQ(SSL_new_session_ticket(peer.ssl()), 1);
            EXPECT_EQ(SSL_do_handshake(peer.ssl()), 1);
            const std::string ticket = peer.take_output();
            EXPECT_GT(ticket.size(), 540U) << "more than one record";
            const std::string_view first = std::string_view(ticket).substr(0, 512 + 22);
            co_await unwrap(far.write_all(Bytes(first)));
            // Reads the first record, and is cancelled in the middle of the message.
            EXPECT_EQ((co_await penstock::timeout(1ms, read_some(stream))).error(),
                      std::errc::timed_out);
            const auto writes = [&]() -> Task<Result<>> {
                co_await unwrap(stream.write_all("question"));
                if (!while_reading) {
                    EXPECT_EQ(co_await unwrap(read_some(stream)), "answer");
                }
                co_return Result<>();
            };
            const auto reads = [&]() -> Task<Result<>> {
                if (while_reading) {
                    EXPECT_EQ(co_await unwrap(read_some(stream)), "answer");
                }
                co_return Result<>();
            };
            const auto answers = [&]() -> Task<Result<>> {
                co_await unwrap(far.write_all(Bytes(std::string_view(ticket).substr(512 + 22))));
                EXPECT_EQ(co_await unwrap(peer.read()), "question");
                co_return co_await peer.write("answer");
            };
            co_await unwrap(penstock::all(reads(), writes(), answers()));
            co_return Result<>();
        };
        EXPECT_TRUE(run(program()));
    }
}

TEST_F(TlsProtocolMessages, AManipulatedRecordIsRefusedAndThePeerGetsAnAlert) {
    const auto context = raw_context();
    const auto program = [&]() -> Task<Result<>> {
        TcpPair tcp = co_await connect_pair();
        RawPeer<TcpStream> peer(tcp.far, context.get());
        auto stream = co_await unwrap(connect_to(peer, std::move(tcp.near), client()));
        SSL_write(peer.ssl(), "x", 1);
        std::string record = peer.take_output();
        record.back() = static_cast<char>(record.back() ^ 1);
        co_await unwrap(tcp.far.write_all(Bytes(record)));
        for (int again = 0; again < 2; ++again) {
            const auto refused = co_await read_some(stream);
            EXPECT_EQ(refused.error().category(), tls::openssl_category());
            EXPECT_EQ(refused.error().message(), "decryption failed or bad record mac");
        }
        try {
            (void)co_await peer.read();
            ADD_FAILURE() << "no alert";
        } catch (const std::runtime_error& error) {
            EXPECT_NE(std::string(error.what()).find("alert bad record mac"), std::string::npos)
                << error.what();
        }
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

} // namespace
