#include <penstock/http/json.hpp>

#include <penstock/http/refusal.hpp>
#include <penstock/http/server.hpp>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
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
template <> struct penstock::http::JsonCodec<nlohmann::json> {
    static std::string write(const nlohmann::json& value) { return value.dump(); }
    static std::optional<nlohmann::json> read(std::string_view text) {
        auto value = nlohmann::json::parse(text, nullptr, false);
        return value.is_discarded() ? std::nullopt : std::optional(std::move(value));
    }
};
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
#else
    GTEST_SKIP() << "no nlohmann/json.hpp (Debian: apt-get install nlohmann-json3-dev)";
#endif
}

TEST(HttpRefusals, AProgramsOwnCategoryChoosesTheStatus) {
    static const Teapots teapots;
    const auto refuse = [](Request&, Response&) -> Result<> {
        return failure(std::error_code(1, teapots));
    };
    EXPECT_TRUE(answer_of(refuse, post("a/b", "")).starts_with("HTTP/1.1 418 "));
}

} // namespace
