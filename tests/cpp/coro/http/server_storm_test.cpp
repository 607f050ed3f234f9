// Clients that ask, stream, speak WebSocket, disappear and are cancelled at random times, from a
// seed. No response is wrong, and the server ends with no connection left.

#include <utility>

#include <gtest/gtest.h>

#include "coro/http/server_storm.hpp"
#include "support/stress.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace penstock;
using penstock::testing::Storm;
using penstock::testing::Stress;
using penstock::testing::Watchdog;

TEST(HttpServerStorm, SurvivesRandomClientsAndCancellation) {
    const Watchdog watchdog(Stress::patience());
    int answered = 0;
    int echoed = 0;
    const Stress stress(20);
    for (unsigned seed = stress.first; seed < stress.end; ++seed) {
        SCOPED_TRACE(seed);
        Storm storm(seed);
        const auto dial = [](net::Endpoint endpoint) { return net::TcpStream::connect(endpoint); };
        const auto serve = [](http::Server& server, net::TcpListener listener) {
            return server.serve(std::move(listener));
        };
        penstock::testing::run_storm(storm, dial, serve);
        answered += storm.answered;
        echoed += storm.echoed;
    }
    EXPECT_GT(answered, 0);
    EXPECT_GT(echoed, 0);
}

} // namespace
