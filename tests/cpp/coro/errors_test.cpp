#include <penstock/errors.hpp>
#include <penstock/result.hpp>

#include <cerrno>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

namespace {

using penstock::Error;
using penstock::failure;
using penstock::Result;

TEST(Errors, OfTheKernelCompareEqualToTheirConditions) {
    errno = ECONNRESET;
    const Result<int> last = penstock::last_failure();
    EXPECT_EQ(last.error(), std::errc::connection_reset);
    EXPECT_EQ(last.error().category(), std::system_category());
    const Result<> made = failure(std::errc::timed_out);
    EXPECT_EQ(made.error(), std::error_code(ETIMEDOUT, std::system_category()));
}

TEST(Errors, OfTheLibraryHaveACategoryAndAMessage) {
    const Result<> closed = failure(Error::channel_closed);
    EXPECT_EQ(closed.error(), Error::channel_closed);
    EXPECT_NE(closed.error(), Error::end_of_stream);
    EXPECT_EQ(std::string(closed.error().category().name()), "penstock");
    EXPECT_NE(closed.error().message(), make_error_code(Error::end_of_stream).message());
    EXPECT_EQ(std::error_code(99, penstock::error_category()).message(), "unknown error 99");
}

} // namespace
