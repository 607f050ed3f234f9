// Peers of a server over TLS that read slowly or not at all.

#include <array>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/net/tcp_listener.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/http/running_server.hpp"
#include "coro/support/slow_peer.hpp"
#include "coro/tls/tls_test.hpp"

namespace {

using namespace penstock;
using penstock::testing::connect_narrow;
using penstock::testing::expect;
using penstock::testing::listen_wide;
using penstock::testing::patient_options;
using penstock::testing::read_steadily;
using penstock::testing::read_until;
using penstock::testing::request_for;
using penstock::testing::slow_size;
using penstock::testing::SlowSite;
using penstock::testing::strict_options;
using penstock::testing::until_gone;
using TlsStream = tls::Stream<net::TcpStream>;

class SlowTlsPeers : public penstock::testing::TlsTest {
protected:
    std::size_t before = 0; ///< connections of the server

    /// Runs `talk(path, stream)` for each way to send, one beside the other.
    template <typename Talk> void serve(SlowSite& site, Talk talk) {
        const tls::Context context = server();
        const tls::Context trusting = client();
        const auto ask = [&](net::Endpoint endpoint, std::string_view path) -> Task<Result<>> {
            TlsStream stream = co_await unwrap(
                TlsStream::connect(co_await connect_narrow(endpoint), trusting, "localhost"));
            co_await unwrap(stream.write_all(request_for(path)));
            (void)co_await read_until(stream, "\r\n\r\n");
            co_await talk(path, stream);
            co_return Result<>();
        };
        const auto asking = [&](net::Endpoint endpoint) -> Task<Result<>> {
            before = site.server.connections();
            const auto all_asked =
                co_await all(ask(endpoint, "/body"), ask(endpoint, "/parts"),
                             ask(endpoint, "/files/large"), ask(endpoint, "/push"));
            site.server.stop(std::chrono::seconds(0));
            co_return all_asked ? Result<>() : failure(all_asked.error());
        };
        const auto program = [&]() -> Task<> {
            net::TcpListener listener = listen_wide();
            const net::Endpoint endpoint = expect(listener.local_endpoint());
            const auto prepare = [&](net::TcpStream stream) {
                return TlsStream::accept(std::move(stream), context);
            };
            expect(co_await all(site.server.serve(std::move(listener), prepare), asking(endpoint)));
        };
        run(program());
    }
};

TEST_F(SlowTlsPeers, GetAllOfWhatIsSentIfTheyReadSteadily) {
    SlowSite site(patient_options());
    serve(site, [](std::string_view path, TlsStream& stream) -> Task<void> {
        const Result<std::size_t> size = co_await read_steadily(stream);
        EXPECT_GE(size.value_or(0), slow_size) << path;
    });
    EXPECT_FALSE(site.error) << site.error.message();
}

TEST_F(SlowTlsPeers, AreGoneInTimeIfTheyReadNothing) {
    SlowSite site(strict_options());
    serve(site, [&](std::string_view path, TlsStream& stream) -> Task<void> {
        co_await until_gone(site.server, before);
        const Result<std::string> rest = co_await read_all_text(stream);
        EXPECT_FALSE(rest) << path; // without the end of the encrypted stream
    });
    EXPECT_EQ(site.error, std::errc::timed_out);
}

} // namespace
