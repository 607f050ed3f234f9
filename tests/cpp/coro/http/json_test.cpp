#include <penstock/http/json.hpp>

#include <penstock/http/refusal.hpp>
#include <penstock/http/server.hpp>
#include <penstock/http/status_error.hpp>

#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#if __has_include(<nlohmann/json.hpp>)
#include <penstock/http/nlohmann_json.hpp>
#endif

#include "coro/http/running_server.hpp"

namespace {

/// A program's own type: [1] is a celsius of 1.
struct Celsius {
    int value = 0;
};

/// A program's own refusals.
class Teapots final : public penstock::http::RefusalCategory {
public:
    [[nodiscard]] const char* name() const noexcept override { return "teapots"; }
    [[nodiscard]] std::string message(int /*value*/) const override { return "a teapot"; }
    [[nodiscard]] penstock::http::Status status_for(int /*value*/) const noexcept override {
        return penstock::http::Status(418);
    }
};

} // namespace

template <> struct penstock::http::JsonCodec<Celsius> {
    static std::string write(const Celsius& celsius) {
        return "[" + std::to_string(celsius.value) + "]";
    }
    static std::optional<Celsius> read(std::string_view text) {
        Celsius celsius;
        if (!text.starts_with('[') || !text.ends_with(']')) {
            return std::nullopt;
        }
        const char* const end = text.data() + text.size() - 1;
        const auto [stopped, error] = std::from_chars(text.data() + 1, end, celsius.value);
        return error == std::errc() && stopped == end ? std::optional(celsius) : std::nullopt;
    }
};

#if __has_include(<nlohmann/json.hpp>)
namespace {

struct Person {
    std::string name{};
    int age = 0;
};

void from_json(const nlohmann::json& value, Person& person) {
    value.at("name").get_to(person.name);
    value.at("age").get_to(person.age);
}

void to_json(nlohmann::json& value, const Person& person) {
    value = {{"name", person.name}, {"age", person.age}};
}

} // namespace

template <> struct penstock::http::JsonCodec<Person> : penstock::http::NlohmannCodec<Person> {};
#endif

namespace {

using namespace penstock;
using http::Request;
using http::Response;
using penstock::testing::exchange;
using penstock::testing::status_line;
using penstock::testing::with_server;

std::string post(std::string_view type, std::string_view body) {
    return "POST /value HTTP/1.1\r\nHost: a\r\nContent-Type: " + std::string(type) +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

/// The answer of a handler to one request, which must not report a failure.
template <typename Handler> std::string answer_of(Handler handler, const std::string& request) {
    std::vector<std::string> failures;
    http::ServerOptions options;
    options.on_failure = [&](const http::ServerFailure& failure) {
        failures.push_back(failure.to_string());
    };
    http::Server server(std::move(options));
    server.post("/value", std::move(handler));
    std::string answer;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        answer = co_await exchange(endpoint, request);
    });
    EXPECT_TRUE(failures.empty()) << failures.front();
    return answer;
}

Task<Result<>> warmer(Request& request, Response& response) {
    auto celsius = co_await unwrap(http::read_json<Celsius>(request));
    ++celsius.value;
    http::write_json(response, celsius);
    co_return Result<>();
}

TEST(HttpJson, AValueIsReadAndWritten) {
    const std::string answer = answer_of(warmer, post("application/json; charset=utf-8", "[41]"));
    EXPECT_EQ(status_line(answer), "HTTP/1.1 200 OK");
    EXPECT_NE(answer.find("\r\nContent-Type: application/json\r\n"), std::string::npos) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\n[42]")) << answer;
    EXPECT_TRUE(answer_of(warmer, post("Application/Problem+JSON", "[0]")).ends_with("[1]"));
}

TEST(HttpJson, AnotherBodyIsTheClientsFault) {
    EXPECT_EQ(status_line(answer_of(warmer, post("application/json", "41"))),
              "HTTP/1.1 400 Bad Request");
    for (const char* type : {"text/plain", "+json", "application/jsonx"}) {
        EXPECT_EQ(status_line(answer_of(warmer, post(type, "[41]"))),
                  "HTTP/1.1 415 Unsupported Media Type")
            << type;
    }
}

TEST(HttpJson, ErrorsHaveACategory) {
    const std::error_code error = http::JsonError::malformed;
    EXPECT_EQ(std::string(error.category().name()), "penstock.http.json");
    EXPECT_EQ(error.message(), "the body is not JSON of the wanted form");
}

TEST(HttpJson, NlohmannsValuesWork) {
#if __has_include(<nlohmann/json.hpp>)
    const auto sum = [](Request& request, Response& response) -> Task<Result<>> {
        const auto value = co_await unwrap(http::read_json<nlohmann::json>(request));
        http::write_json(response,
                         nlohmann::json{{"sum", value.at(0).get<int>() + value.at(1).get<int>()}});
        co_return Result<>();
    };
    EXPECT_TRUE(answer_of(sum, post("application/json", " [ 1, 2 ] ")).ends_with("{\"sum\":3}"));
    EXPECT_EQ(status_line(answer_of(sum, post("application/json", "[1, 2"))),
              "HTTP/1.1 400 Bad Request");
    const auto older = [](Request& request, Response& response) -> Task<Result<>> {
        auto person = co_await unwrap(http::read_json<Person>(request));
        ++person.age;
        http::write_json(response, person);
        co_return Result<>();
    };
    EXPECT_TRUE(answer_of(older, post("application/json", R"({"name": "ada", "age": 36})"))
                    .ends_with(R"({"age":37,"name":"ada"})"));
    for (const char* other : {R"({"name": "ada"})", R"({"name": 1, "age": 36})", "[]", "null"}) {
        EXPECT_EQ(status_line(answer_of(older, post("application/json", other))),
                  "HTTP/1.1 400 Bad Request")
            << other;
    }
    // What the library would write by so many calls inside each other is not taken.
    const auto same = [](Request& request, Response& response) -> Task<Result<>> {
        http::write_json(response, co_await unwrap(http::read_json<nlohmann::json>(request)));
        co_return Result<>();
    };
    const std::string deep = std::string(256, '[') + std::string(256, ']');
    EXPECT_TRUE(answer_of(same, post("application/json", deep)).ends_with("\r\n\r\n" + deep));
    EXPECT_EQ(status_line(answer_of(same, post("application/json", std::string(500'000, '[') +
                                                                       std::string(500'000, ']')))),
              "HTTP/1.1 400 Bad Request");
#else
    GTEST_SKIP() << "no nlohmann/json.hpp (Debian: apt-get install nlohmann-json3-dev)";
#endif
}

TEST(HttpJson, TheDepthOfATextIsThatOfItsArraysAndObjects) {
    EXPECT_FALSE(http::is_nested_deeper("", 0));
    EXPECT_FALSE(http::is_nested_deeper("1", 0));
    EXPECT_TRUE(http::is_nested_deeper("[", 0));
    EXPECT_FALSE(http::is_nested_deeper("[[], {}, [1]]", 2));
    EXPECT_TRUE(http::is_nested_deeper(R"([{"a":[1]}])", 2));
    EXPECT_FALSE(http::is_nested_deeper(R"(["[[", "\"[[", "\\"])", 1));
    EXPECT_TRUE(http::is_nested_deeper(R"(["\\", [1]])", 1));
    EXPECT_FALSE(http::is_nested_deeper("]]]]", 0)); // not JSON at all
    EXPECT_FALSE(http::is_nested_deeper("\"\\", 0));
}

TEST(HttpRefusals, AnExceptionMayBeTheAnswer) {
    const auto told = [](Request&, Response& response) -> Task<Result<>> {
        response.header("ETag", "\"1\"");
        throw http::StatusError(http::Status::not_found, "no item 7");
        co_return Result<>();
    };
    const std::string answer = answer_of(told, post("a/b", "x"));
    EXPECT_EQ(status_line(answer), "HTTP/1.1 404 Not Found");
    EXPECT_TRUE(answer.ends_with("\r\n\r\n404 Not Found: no item 7\n")) << answer;
    EXPECT_FALSE(answer.contains("ETag")) << answer;
    const auto at_once = [](Request&, Response&) {
        throw http::StatusError(http::Status::service_unavailable);
    };
    EXPECT_TRUE(answer_of(at_once, post("a/b", "")).ends_with("503 Service Unavailable\n"));
    EXPECT_STREQ(http::StatusError(http::Status(499), "gone").what(), "499: gone");
    EXPECT_THROW((http::StatusError{http::Status::ok}), std::invalid_argument);
    EXPECT_THROW((http::StatusError{http::Status(600)}), std::invalid_argument);
}

TEST(HttpRefusals, AnExceptionBehindTheBeginningOfAResponseIsAFailure) {
    int failures = 0;
    http::ServerOptions options;
    options.on_failure = [&failures](const http::ServerFailure& failure) {
        EXPECT_EQ(failure.to_string(), "GET /: 404 Not Found");
        ++failures;
    };
    http::Server server(std::move(options));
    server.get("/", [](Request&, Response& response) -> Task<Result<>> {
        co_await unwrap(response.write_all(std::string_view("part")));
        throw http::StatusError(http::Status::not_found);
    });
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream =
            penstock::testing::expect(co_await net::TcpStream::connect(endpoint));
        penstock::testing::expect(
            co_await stream.write_all(std::string_view("GET / HTTP/1.1\r\nHost: a\r\n\r\n")));
        const auto whole = co_await read_all_text(stream);
        EXPECT_TRUE(!whole || !whole->ends_with("0\r\n\r\n"));
    });
    EXPECT_EQ(failures, 1);
}

TEST(HttpRefusals, AProgramsOwnCategoryChoosesTheStatus) {
    static const Teapots teapots;
    const auto refuse = [](Request&, Response&) -> Result<> {
        return failure(std::error_code(1, teapots));
    };
    EXPECT_TRUE(answer_of(refuse, post("a/b", "")).starts_with("HTTP/1.1 418 "));
}

} // namespace
