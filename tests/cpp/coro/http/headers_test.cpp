#include <penstock/http/head.hpp>
#include <penstock/http/method.hpp>
#include <penstock/http/status.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

namespace http = penstock::http;
using http::Headers;

TEST(HttpHeaders, KeepFieldsInTheirOrder) {
    Headers headers{{"Content-Type", "text/plain"}, {"Set-Cookie", "a=1"}};
    headers.add("Set-Cookie", "b=2");
    EXPECT_EQ(headers.text(), "Content-Type: text/plain\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n");
    std::vector<std::string> names;
    for (const http::Field field : headers) {
        names.emplace_back(field.name);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"Content-Type", "Set-Cookie", "Set-Cookie"}));
    EXPECT_EQ(headers.count("set-cookie"), 2);
}

TEST(HttpHeaders, FindNamesInAnyCase) {
    const Headers headers{{"ETag", "\"x\""}, {"Connection", "keep-alive, Upgrade"}};
    EXPECT_EQ(headers.find("etag"), "\"x\"");
    EXPECT_EQ(headers.find("etags"), std::nullopt);
    EXPECT_TRUE(headers.has_token("connection", "upgrade"));
    EXPECT_FALSE(headers.has_token("connection", "close"));
}

TEST(HttpHeaders, SetReplacesAllFieldsWithTheName) {
    Headers headers{{"A", "1"}, {"B", "2"}, {"a", "3"}};
    headers.set("A", "4");
    EXPECT_EQ(headers.text(), "B: 2\r\nA: 4\r\n");
    EXPECT_EQ(headers.remove("b"), 1);
    EXPECT_EQ(headers.remove("b"), 0);
    EXPECT_EQ(headers.text(), "A: 4\r\n");
}

TEST(HttpHeaders, TakeArgumentsFromThemselves) {
    Headers headers{{"A", "some text that is longer than a short string"}};
    for (int i = 0; i < 20; ++i) { // so that the text moves several times
        headers.add(headers[0].name, headers[0].value);
        headers.set("B", headers[0].value);
    }
    EXPECT_EQ(headers.size(), 22);
    EXPECT_EQ(headers.find("B"), "some text that is longer than a short string");
    headers.set(headers[0].name, headers.find("B").value_or(""));
    EXPECT_EQ(headers.size(), 2);
    headers.remove(headers[0].name);
    EXPECT_EQ(headers.text(), "A: some text that is longer than a short string\r\n");
}

TEST(HttpHeaders, RefuseWhatWouldBeginAnotherField) {
    Headers headers{{"A", "1"}};
    EXPECT_THROW(headers.add("B", "x\r\nC: y"), std::invalid_argument);
    EXPECT_THROW(headers.add("B", std::string_view("x\0y", 3)), std::invalid_argument);
    EXPECT_THROW(headers.add("B: x\r\nC", "y"), std::invalid_argument);
    EXPECT_THROW(headers.set("", "y"), std::invalid_argument);
    EXPECT_EQ(headers.text(), "A: 1\r\n");
    headers.set("A", " \t x\ty\xc3\xa4 ");
    EXPECT_EQ(headers.find("A"), "x\ty\xc3\xa4");
}

TEST(HttpMethod, IsComparedByText) {
    EXPECT_EQ(http::Method("DELETE"), http::Method::delete_);
    EXPECT_NE(http::Method("get"), http::Method::get);
    EXPECT_TRUE(http::Method::head.is_safe());
    EXPECT_TRUE(http::Method::put.is_idempotent());
    EXPECT_FALSE(http::Method::post.is_idempotent());
}

TEST(HttpStatus, HasNumberAndReason) {
    EXPECT_EQ(http::code(http::Status::not_found), 404);
    EXPECT_EQ(http::reason(http::Status::not_found), "Not Found");
    EXPECT_EQ(http::reason(http::Status(299)), "");
    EXPECT_TRUE(http::is_success(http::Status::no_content));
    EXPECT_TRUE(http::is_error(http::Status::bad_gateway));
    EXPECT_FALSE(http::is_error(http::Status::found));
}

} // namespace
