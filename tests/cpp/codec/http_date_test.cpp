#include <penstock/codec/http/date.hpp>

#include <random>
#include <string>
#include <string_view>

#include <time.h>

#include <gtest/gtest.h>

namespace {

using penstock::codec::http::DateText;
using penstock::codec::http::parse_date;
using penstock::codec::http::Seconds;

constexpr Seconds now = 1'800'000'000; // 2027

TEST(HttpDate, IsWrittenAsTheStandardSays) {
    EXPECT_EQ(DateText(784111777).text(), "Sun, 06 Nov 1994 08:49:37 GMT");
    EXPECT_EQ(DateText(0).text(), "Thu, 01 Jan 1970 00:00:00 GMT");
    EXPECT_EQ(DateText(951782400).text(), "Tue, 29 Feb 2000 00:00:00 GMT");
    EXPECT_EQ(DateText(-1).text(), "Wed, 31 Dec 1969 23:59:59 GMT");
    EXPECT_EQ(DateText(INT64_MAX).text(), "Fri, 31 Dec 9999 23:59:59 GMT");
    EXPECT_EQ(DateText(INT64_MIN).text(), "Mon, 01 Jan 0001 00:00:00 GMT");
}

TEST(HttpDate, IsReadInThreeForms) {
    EXPECT_EQ(parse_date("Sun, 06 Nov 1994 08:49:37 GMT", now), 784111777);
    EXPECT_EQ(parse_date("Sunday, 06-Nov-94 08:49:37 GMT", now), 784111777);
    EXPECT_EQ(parse_date("Sun Nov  6 08:49:37 1994", now), 784111777);
    EXPECT_EQ(parse_date("Wed Nov 16 08:49:37 1994", now), 784111777 + 10 * 86400);
}

TEST(HttpDate, AShortYearIsAtMostFiftyYearsAhead) {
    EXPECT_EQ(parse_date("Friday, 01-Jan-77 00:00:00 GMT", now),
              parse_date("Fri, 01 Jan 2077 00:00:00 GMT", now));
    EXPECT_EQ(parse_date("Sunday, 01-Jan-78 00:00:00 GMT", now),
              parse_date("Sun, 01 Jan 1978 00:00:00 GMT", now));
}

TEST(HttpDate, RefusesOtherTexts) {
    for (const std::string_view text :
         {"", "0", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT ",
          "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
          "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT",
          "sun, 06 nov 1994 08:49:37 gmt", "Sun, 06 Nov 1994 08:49:37 UTC",
          "Sun Nov 6 08:49:37 1994", "Sun, 00 Nov 1994 08:49:37 GMT"}) {
        EXPECT_FALSE(parse_date(text, now)) << text;
    }
}

TEST(HttpDate, AgreesWithTheCLibrary) {
    std::mt19937_64 random(1); // NOLINT(bugprone-random-generator-seed): repeatable
    std::uniform_int_distribution<Seconds> times(0, 253'402'300'799);
    for (int i = 0; i < 2000; ++i) {
        const time_t time = times(random);
        tm parts{};
        gmtime_r(&time, &parts);
        char expected[64];
        const std::size_t size =
            strftime(expected, sizeof expected, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        const DateText text(time);
        ASSERT_EQ(text.text(), std::string_view(expected, size));
        ASSERT_EQ(parse_date(text.text(), now), time);
    }
}

} // namespace
