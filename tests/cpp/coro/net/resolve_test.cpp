#include <penstock/net/resolve.hpp>

#include <algorithm>
#include <string>

#include <netdb.h>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::run;
using penstock::Task;
using penstock::net::Endpoint;
using penstock::net::resolve;
using penstock::testing::expect;
using penstock::testing::Watchdog;

TEST(Resolve, FindsTheLocalHost) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const std::vector<Endpoint> found = expect(co_await resolve("localhost", 80));
        EXPECT_NE(std::ranges::find(found, Endpoint::loopback(80)), found.end());
    };
    run(program());
}

TEST(Resolve, ReturnsNumericAddressesUnchanged) {
    const auto program = []() -> Task<> {
        EXPECT_EQ(expect(co_await resolve("::1", 7)), std::vector{Endpoint::loopback_v6(7)});
        EXPECT_EQ(expect(co_await resolve("127.0.0.1", 7)), std::vector{Endpoint::loopback(7)});
    };
    run(program());
}

TEST(Resolve, ANameThatCannotExistIsAnErrorOfItsCategory) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        // Longer than a name may be (RFC 1035, section 2.3.4), so no server is asked.
        const auto found = co_await resolve(std::string(300, 'x'), 80);
        EXPECT_EQ(&found.error().category(), &penstock::net::resolve_category());
        EXPECT_FALSE(found.error().message().empty());
        EXPECT_EQ((co_await resolve(std::string("local\0host", 10), 80)).error(),
                  std::errc::invalid_argument);
    };
    run(program());
}

TEST(Resolve, TemporaryFailuresCompareEqualToTryAgain) {
    const std::error_code again(EAI_AGAIN, penstock::net::resolve_category());
    EXPECT_EQ(again, std::errc::resource_unavailable_try_again);
    const std::error_code memory(EAI_MEMORY, penstock::net::resolve_category());
    EXPECT_EQ(memory, std::errc::not_enough_memory);
}

} // namespace
