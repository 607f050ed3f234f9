// An HTTP server over TLS, with a WebSocket route, under the storm of clients of server_storm.hpp.
// Handshakes are cancelled too.

#include <utility>

#include <gtest/gtest.h>

#include "coro/http/server_storm.hpp"
#include "coro/tls/tls_test.hpp"
#include "support/stress.hpp"

namespace {

using namespace penstock;
using penstock::testing::Storm;
using penstock::testing::Stress;
using TlsStream = tls::Stream<net::TcpStream>;

class HttpServerOverTlsStorm : public penstock::testing::TlsTest {};

TEST_F(HttpServerOverTlsStorm, SurvivesRandomClientsAndCancellation) {
    int answered = 0;
    int echoed = 0;
    const Stress stress(4);
    const tls::Context clients = client();
    const tls::Context servers = server();
    const auto dial = [&](net::Endpoint endpoint) -> Task<Result<TlsStream>> {
        auto stream = co_await unwrap(net::TcpStream::connect(endpoint));
        co_return co_await TlsStream::connect(std::move(stream), clients, "localhost");
    };
    const auto prepare = [&](net::TcpStream stream) {
        return TlsStream::accept(std::move(stream), servers);
    };
    const auto serve = [&](http::Server& server, net::TcpListener listener) {
        return server.serve(std::move(listener), prepare);
    };
    for (unsigned seed = stress.first; seed < stress.end; ++seed) {
        SCOPED_TRACE(seed);
        Storm storm(seed);
        storm.patience = 30'000;
        penstock::testing::run_storm(storm, dial, serve);
        answered += storm.answered;
        echoed += storm.echoed;
    }
    EXPECT_GT(answered, 0);
    EXPECT_GT(echoed, 0);
}

} // namespace
