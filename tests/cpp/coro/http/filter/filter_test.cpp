// Filters around handlers: their order, what each answers, and what it leaves alone.

#include <penstock/http/filter/authorization.hpp>
#include <penstock/http/filter/chain.hpp>
#include <penstock/http/filter/conditional.hpp>
#include <penstock/http/filter/cors.hpp>
#include <penstock/http/filter/rate_limit.hpp>
#include <penstock/http/filter/security_headers.hpp>
#include <penstock/http/filter/time_limit.hpp>
#include <penstock/http/status_error.hpp>
#include <penstock/http/upgrade.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using http::chain;
using http::Request;
using http::Response;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::status_line;
using penstock::testing::with_server;

/// The responses of a server with one route, one for each request.
template <typename Handler>
std::string responses(Handler handler, const std::string& requests,
                      http::Method method = http::Method::get) {
    http::Server server;
    server.route(method, "/", std::move(handler));
    std::string found;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        found = co_await exchange(endpoint, requests);
    });
    return found;
}

std::string get(std::string_view fields = "", std::string_view method = "GET") {
    return std::string(method) + " / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

/// A connection from an address of the loopback network.
net::TcpStream connected_from(const char* address, const net::Endpoint& to) {
    const net::Endpoint from = expect(net::Endpoint::parse(address, 0));
    OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(socket.get(), from.native(), from.native_size()), 0);
    EXPECT_EQ(::connect(socket.get(), to.native(), to.native_size()), 0);
    return expect(net::TcpStream::adopt(std::move(socket)));
}

bool has(const std::string& text, std::string_view part) {
    return text.contains(part);
}

void hello(Request& /*request*/, Response& response) {
    response.body("hello");
}

/// Writes its name before and after what it surrounds.
struct Around {
    std::string* log;
    std::string name;

    template <typename Next>
    Task<Result<>> operator()(Request& request, Response& response, Next next) {
        *log += name + "(";
        Result<> outcome = co_await next(request, response);
        *log += ")" + name;
        co_return outcome;
    }
};

TEST(Filter, ThePartsOfAChainMeetTheRequestInTheirOrder) {
    std::string log;
    const auto gate = [&log](Request& /*request*/, Response& /*response*/) {
        log += "gate ";
        return true;
    };
    const auto handler = [&log](Request& /*request*/, Response& response) -> Task<void> {
        log += "handler ";
        response.body("hello");
        co_return;
    };
    const std::string found =
        responses(chain(Around{&log, "a"}, gate, Around{&log, "b"}, handler), get());
    EXPECT_EQ(log, "a(gate b(handler )b)a");
    EXPECT_TRUE(found.ends_with("hello"));
}

TEST(Filter, EveryKindOfHandlerEndsAChain) {
    const auto pass = [](Request& /*request*/, Response& /*response*/) { return true; };
    const auto result = [](Request& request, Response& response) -> Result<> {
        hello(request, response);
        return {};
    };
    const auto task = [](Request& request, Response& response) -> Task<Result<>> {
        hello(request, response);
        co_return Result<>();
    };
    std::string log;
    // Gates in front of a handler that does not wait make no coroutine.
    auto plain = chain(pass, pass, &hello);
    static_assert(
        std::is_same_v<std::invoke_result_t<decltype(plain)&, Request&, Response&>, Result<>>);
    EXPECT_TRUE(has(responses(plain, get()), "hello"));
    EXPECT_TRUE(has(responses(chain(pass, result), get()), "hello"));
    EXPECT_TRUE(has(responses(chain(pass, task), get()), "hello"));
    EXPECT_TRUE(has(responses(chain(Around{&log, "a"}, result), get()), "hello"));
    EXPECT_TRUE(has(responses(chain(Around{&log, "a"}, &hello), get()), "hello"));
}

TEST(Filter, AClosedGateAnswersItself) {
    const auto gate = [](Request& /*request*/, Response& response) {
        response.status(http::Status::forbidden);
        return false;
    };
    const auto task = [](Request& /*request*/, Response& response) -> Task<void> {
        response.body("hello");
        co_return;
    };
    for (const std::string& found :
         {responses(chain(gate, &hello), get()), responses(chain(gate, task), get())}) {
        EXPECT_EQ(status_line(found), "HTTP/1.1 403 Forbidden");
        EXPECT_FALSE(has(found, "hello"));
    }
}

TEST(Filter, SecurityHeadersAreDefaultsOfAHandler) {
    const auto handler = [](Request& /*request*/, Response& response) {
        response.header("X-Frame-Options", "SAMEORIGIN");
    };
    const std::string found =
        responses(chain(http::SecurityHeaders{.referrer_policy = ""}, handler), get());
    EXPECT_TRUE(has(found, "X-Content-Type-Options: nosniff\r\n"));
    EXPECT_TRUE(has(found, "X-Frame-Options: SAMEORIGIN\r\n"));
    EXPECT_FALSE(has(found, "DENY"));
    EXPECT_FALSE(has(found, "Referrer-Policy"));
    EXPECT_FALSE(has(found, "Strict-Transport-Security"));
}

TEST(Filter, CorsKeepsWhatTheResponseVariesBy) {
    const auto varies = [](Request& /*request*/, Response& response) {
        response.headers().add("Vary", "Accept-Encoding");
        response.headers().add("Vary", "Cookie");
        return true;
    };
    const http::Cors cors({.origins = {"https://one"}});
    const std::string found = responses(chain(varies, cors, cors, &hello), get());
    EXPECT_TRUE(has(found, "Vary: Accept-Encoding\r\n"));
    EXPECT_TRUE(has(found, "Vary: Cookie\r\n"));
    EXPECT_TRUE(has(found, "Vary: Origin\r\n"));
    EXPECT_EQ(found.find("Origin"), found.rfind("Origin"));
}

TEST(Filter, CorsAnswersPreflightsAndNamesOnlyAllowedOrigins) {
    const http::Cors cors({.origins = {"https://one", "https://two"},
                           .methods = {"PUT"},
                           .request_fields = {"X-Wanted"},
                           .response_fields = {"ETag"},
                           .credentials = true});
    const auto route = chain(cors, &hello);
    const std::string simple = responses(route, get("Origin: https://two\r\n"));
    EXPECT_TRUE(has(simple, "Access-Control-Allow-Origin: https://two\r\n"));
    EXPECT_TRUE(has(simple, "Access-Control-Allow-Credentials: true\r\n"));
    EXPECT_TRUE(has(simple, "Access-Control-Expose-Headers: ETag\r\n"));
    EXPECT_TRUE(has(simple, "Vary: Origin\r\n"));
    EXPECT_TRUE(simple.ends_with("hello"));
    for (const char* origin : {"Origin: https://three\r\n", "Origin: https://one.evil\r\n", ""}) {
        const std::string found = responses(route, get(origin));
        EXPECT_FALSE(has(found, "Access-Control")) << origin;
        EXPECT_TRUE(has(found, "Vary: Origin\r\n")) << origin;
        EXPECT_TRUE(found.ends_with("hello")) << origin;
    }
    const std::string asked = "Access-Control-Request-Method: PUT\r\n";
    const std::string preflight =
        responses(route, get("Origin: https://one\r\n" + asked, "OPTIONS"), http::Method::options);
    EXPECT_EQ(status_line(preflight), "HTTP/1.1 204 No Content");
    EXPECT_TRUE(has(preflight, "Access-Control-Allow-Methods: PUT\r\n"));
    EXPECT_TRUE(has(preflight, "Access-Control-Allow-Headers: X-Wanted\r\n"));
    EXPECT_TRUE(has(preflight, "Access-Control-Max-Age: 600\r\n"));
    EXPECT_FALSE(has(preflight, "hello"));
    EXPECT_FALSE(has(
        responses(route, get("Origin: https://no\r\n" + asked, "OPTIONS"), http::Method::options),
        "Access-Control"));
    EXPECT_TRUE(has(
        responses(chain(http::Cors({.origins = {"*"}}), &hello), get("Origin: https://any\r\n")),
        "Access-Control-Allow-Origin: *\r\n"));
    EXPECT_THROW(http::Cors({}), std::invalid_argument);
    EXPECT_THROW(http::Cors({.origins = {"*"}, .credentials = true}), std::invalid_argument);
}

TEST(Filter, BasicAuthorizationTakesOneGoodPairOnly) {
    const auto route =
        chain(http::BasicAuthorization("the lab",
                                       [](std::string_view user, std::string_view password) {
                                           return user == "Aladdin" &&
                                                  http::equal_secrets(password, "open:sesame");
                                       }),
              &hello);
    const std::string good = "QWxhZGRpbjpvcGVuOnNlc2FtZQ=="; // Aladdin:open:sesame
    for (const std::string& field :
         {"Authorization: Basic " + good, "authorization: bAsIc   " + good,
          std::string("Authorization: Basic QWxhZGRpbjpvcGVuOnNlc2FtZQ")}) {
        EXPECT_TRUE(has(responses(route, get(field + "\r\n")), "hello")) << field;
    }
    std::string twice = "Authorization: Basic ";
    twice += good;
    twice += "\r\n";
    twice += twice.substr(0, twice.size() - 2);
    for (const std::string& field :
         {std::string("X: y"), std::string("Authorization: Basic"),
          "Authorization: Basic " + good + "=", "Authorization: Basic" + good,
          "Authorization: Bearer " + good,
          std::string("Authorization: Basic QWxhZGRpbg=="), // no colon
          std::string("Authorization: Basic QWxhZGRpbjp3cm9uZw=="), twice}) {
        const std::string found = responses(route, get(field + "\r\n"));
        EXPECT_EQ(status_line(found), "HTTP/1.1 401 Unauthorized") << field;
        EXPECT_TRUE(has(found, "WWW-Authenticate: Basic realm=\"the lab\", charset=\"UTF-8\"\r\n"));
        EXPECT_FALSE(has(found, "hello"));
    }
    EXPECT_THROW(http::BasicAuthorization("a\"b", nullptr), std::invalid_argument);
}

TEST(Filter, BearerAuthorizationTakesAGoodToken) {
    const auto route =
        chain(http::BearerAuthorization(
                  "lab", [](std::string_view token) { return http::equal_secrets(token, "t0k"); }),
              &hello);
    EXPECT_TRUE(has(responses(route, get("Authorization: Bearer t0k\r\n")), "hello"));
    EXPECT_TRUE(has(responses(route, get("Authorization: Bearer t0\r\n")),
                    "WWW-Authenticate: Bearer realm=\"lab\", error=\"invalid_token\"\r\n"));
    EXPECT_TRUE(has(responses(route, get()), "WWW-Authenticate: Bearer realm=\"lab\"\r\n"));
    const auto one = chain(http::BearerAuthorization("lab", "t0k"), &hello);
    EXPECT_TRUE(has(responses(one, get("Authorization: Bearer t0k\r\n")), "hello"));
    EXPECT_FALSE(has(responses(one, get("Authorization: Bearer t0k0\r\n")), "hello"));
    const auto none = chain(http::BearerAuthorization("lab", ""), &hello);
    EXPECT_FALSE(has(responses(none, get("Authorization: Bearer \r\n")), "hello"));
    EXPECT_FALSE(has(responses(none, get("Authorization: Bearer =\r\n")), "hello"));
    EXPECT_TRUE(http::equal_secrets("", ""));
    EXPECT_FALSE(http::equal_secrets("a", ""));
    EXPECT_FALSE(http::equal_secrets("", "a"));
    EXPECT_FALSE(http::equal_secrets("aa", "a"));
}

TEST(Filter, ARateLimitRefillsWithTimeAndItsCopiesCountTogether) {
    std::chrono::steady_clock::time_point now{};
    const http::RateLimit limit(
        {.requests = 1, .per = 10s, .burst = 2, .clock = [&now] { return now; }});
    http::Server server;
    server.get("/", chain(limit, &hello));
    server.get("/other", chain(limit, &hello));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const auto status = [&](std::string_view target) -> Task<std::string> {
            co_return co_await exchange(endpoint, "GET " + std::string(target) +
                                                      " HTTP/1.1\r\nHost: a\r\n\r\n");
        };
        EXPECT_TRUE(has(co_await status("/"), "hello"));
        EXPECT_TRUE(has(co_await status("/other"), "hello"));
        now += 1s;
        const std::string refused = co_await status("/");
        EXPECT_EQ(status_line(refused), "HTTP/1.1 429 Too Many Requests");
        EXPECT_TRUE(has(refused, "Retry-After: 9\r\n")) << refused;
        now += 9s;
        EXPECT_TRUE(has(co_await status("/"), "hello"));
        EXPECT_FALSE(has(co_await status("/"), "hello"));
        now += 1h; // never more than the burst
        EXPECT_TRUE(has(co_await status("/"), "hello"));
        EXPECT_TRUE(has(co_await status("/"), "hello"));
        EXPECT_FALSE(has(co_await status("/"), "hello"));
    });
    EXPECT_EQ(limit.clients(), 1U);
    EXPECT_THROW(http::RateLimit({.burst = 0.5}), std::invalid_argument);
    EXPECT_THROW(http::RateLimit({.requests = 0}), std::invalid_argument);
    EXPECT_THROW(http::RateLimit({.clients = 0}), std::invalid_argument);
}

TEST(Filter, ARateLimitRemembersSoManyClientsAndForgetsTheIdle) {
    std::chrono::steady_clock::time_point now{};
    const http::RateLimit limit(
        {.requests = 1, .per = 1s, .burst = 1, .clients = 2, .clock = [&now] { return now; }});
    http::Server server;
    server.get("/", chain(limit, &hello));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const auto from = [&](const char* address) -> Task<bool> {
            net::TcpStream stream = connected_from(address, endpoint);
            expect(co_await stream.write_all(get()));
            expect(stream.shutdown());
            co_return has(expect(co_await read_all_text(stream)), "hello");
        };
        EXPECT_TRUE(co_await from("127.0.0.2"));
        EXPECT_TRUE(co_await from("127.0.0.3"));
        // No room, and nobody idle: the two share one allowance.
        EXPECT_TRUE(co_await from("127.0.0.4"));
        EXPECT_FALSE(co_await from("127.0.0.5"));
        EXPECT_FALSE(co_await from("127.0.0.2"));
        now += 2s;
        EXPECT_TRUE(co_await from("127.0.0.5"));
        EXPECT_EQ(limit.clients(), 1U);
    });
}

TEST(Filter, ATimeLimitCancelsTheHandlerAndAnswers503) {
    bool cancelled = false;
    const auto slow = [&cancelled](Request& /*request*/, Response& response) -> Task<Result<>> {
        const Result<> slept = co_await sleep_for(1h);
        cancelled = !slept;
        response.body("late");
        co_return slept;
    };
    const std::string found = responses(chain(http::TimeLimit(5ms), slow), get() + get());
    EXPECT_EQ(status_line(found), "HTTP/1.1 503 Service Unavailable");
    EXPECT_FALSE(has(found, "late"));
    EXPECT_TRUE(cancelled);
    EXPECT_TRUE(has(responses(chain(http::TimeLimit(1h), &hello), get()), "hello"));
}

TEST(Filter, ATimeLimitResetsAResponseThatHasBegun) {
    const auto slow = [](Request& /*request*/, Response& response) -> Task<Result<>> {
        if (const Result<> sent = co_await response.write_all(std::string_view("part")); !sent) {
            co_return sent;
        }
        co_return co_await sleep_for(1h);
    };
    http::Server server;
    server.get("/", chain(http::TimeLimit(5ms), slow));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(get()));
        const auto whole = co_await read_all_text(stream);
        // Reset, or ended without the last chunk.
        EXPECT_TRUE(!whole || !whole->ends_with("0\r\n\r\n"));
    });
}

TEST(Filter, TheAnswerOfATimeLimitHasNothingOfTheHandler) {
    const auto slow = [](Request& /*request*/, Response& response) -> Task<Result<>> {
        response.status(http::Status::created);
        response.header("Cache-Control", "max-age=3600");
        response.header("ETag", "\"1\"");
        response.header("Set-Cookie", "a=1");
        response.content_length(5000);
        response.body("half of the work");
        co_return co_await sleep_for(1h);
    };
    const auto limited = chain(http::SecurityHeaders(), http::TimeLimit(5ms), slow);
    for (const char* method : {"GET", "HEAD"}) {
        const std::string found = responses(limited, get("", method));
        EXPECT_EQ(status_line(found), "HTTP/1.1 503 Service Unavailable");
        for (const char* part : {"Cache-Control", "ETag", "Set-Cookie", "5000", "half"}) {
            EXPECT_FALSE(has(found, part)) << method << ": " << found;
        }
        EXPECT_TRUE(has(found, "Content-Length: 24\r\n")) << found;
        EXPECT_TRUE(has(found, "X-Content-Type-Options: nosniff\r\n")) << found; // it lasts
    }
}

TEST(Filter, ATimeOutOfTheHandlersOwnIsItsFailure) {
    int failures = 0;
    http::ServerOptions options;
    options.on_failure = [&failures](const http::ServerFailure& failure) {
        EXPECT_EQ(failure.error, std::errc::timed_out);
        ++failures;
    };
    http::Server server(std::move(options));
    const auto early = [](Request& /*request*/, Response& /*response*/) -> Result<> {
        return failure(std::errc::timed_out);
    };
    server.get("/", chain(http::TimeLimit(1h), early));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const std::string found = co_await exchange(endpoint, get());
        EXPECT_EQ(status_line(found), "HTTP/1.1 500 Internal Server Error");
    });
    EXPECT_EQ(failures, 1);
}

TEST(Filter, AHandlerThatThrowsWhenItIsCutOffIs503) {
    http::ServerOptions options;
    options.on_failure = [](const http::ServerFailure& failure) {
        ADD_FAILURE() << failure.to_string();
    };
    http::Server server(std::move(options));
    server.get("/code",
               chain(http::TimeLimit(5ms), [](Request& /*request*/, Response&) -> Task<void> {
                   if (const Result<> slept = co_await sleep_for(1h); !slept) {
                       throw std::system_error(slept.error());
                   }
               }));
    server.get("/access",
               chain(http::TimeLimit(5ms), [](Request& /*request*/, Response&) -> Task<void> {
                   (co_await sleep_for(1h)).value();
               }));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        for (const char* target : {"/code", "/access"}) {
            const std::string found = co_await exchange(
                endpoint, "GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n");
            EXPECT_EQ(status_line(found), "HTTP/1.1 503 Service Unavailable") << target;
        }
    });
}

TEST(Filter, ScriptsOfOtherOriginsReadFailuresToo) {
    http::ServerOptions options;
    options.limits.body = 10;
    options.on_failure = [](const http::ServerFailure& /*failure*/) {};
    options.gate = http::Cors({.origins = {"https://one"}, .response_fields = {"ETag"}});
    options.error_page = [](Response& response) {
        if (response.status() == http::Status::not_found) {
            throw std::runtime_error("no page");
        }
    };
    http::Server server(std::move(options));
    server.get("/", &hello);
    server.get("/throws", [](Request&, Response&) { throw std::runtime_error("broken"); });
    server.get("/fails", [](Request&, Response& response) -> Result<> {
        response.header("Cache-Control", "max-age=1");
        return failure(std::errc::io_error);
    });
    server.get("/known", chain(http::BearerAuthorization("a", "secret"), &hello));
    server.get("/slow", chain(http::TimeLimit(5ms), [](Request&, Response&) -> Task<Result<>> {
                   co_return co_await sleep_for(1h);
               }));
    server.post("/text", [](Request& request, Response& response) -> Task<Result<>> {
        response.body(co_await unwrap(request.text()));
        co_return Result<>();
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const auto answer = [&](std::string line, std::string_view more = "") {
            return exchange(endpoint, line + " HTTP/1.1\r\nHost: a\r\nOrigin: https://one\r\n" +
                                          std::string(more) + "\r\n");
        };
        const auto is = [](const std::string& found, std::string_view status) {
            EXPECT_TRUE(found.starts_with("HTTP/1.1 " + std::string(status))) << found;
            EXPECT_TRUE(has(found, "Access-Control-Allow-Origin: https://one\r\n")) << found;
            EXPECT_TRUE(has(found, "Access-Control-Expose-Headers: ETag\r\n")) << found;
            EXPECT_TRUE(has(found, "Vary: Origin\r\n")) << found;
            EXPECT_FALSE(has(found, "Cache-Control")) << found;
        };
        is(co_await answer("GET /"), "200 ");
        is(co_await answer("GET /missing"), "404 ");
        is(co_await answer("DELETE /"), "405 ");
        is(co_await answer("GET /throws"), "500 ");
        is(co_await answer("GET /fails"), "500 ");
        is(co_await answer("GET /known"), "401 ");
        is(co_await answer("GET /slow"), "503 ");
        is(co_await answer("POST /text", "Content-Length: 11\r\n"), "413 ");
        is(co_await answer("GET /", "Expect: more\r\n"), "417 ");
        // The route of a preflight needs no method OPTIONS.
        const std::string preflight =
            co_await answer("OPTIONS /known", "Access-Control-Request-Method: GET\r\n");
        EXPECT_TRUE(preflight.starts_with("HTTP/1.1 204 ")) << preflight;
        EXPECT_TRUE(has(preflight, "Access-Control-Max-Age: 600\r\n")) << preflight;
        // A field lasts for one request, also when the next one cannot be read.
        const std::string both =
            co_await exchange(endpoint, "GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://one\r\n\r\n"
                                        "nothing\r\n\r\n");
        EXPECT_EQ(both.find("Allow-Origin"), both.rfind("Allow-Origin")) << both;
        const std::string stranger = co_await exchange(endpoint, get());
        EXPECT_FALSE(has(stranger, "Allow-Origin")) << stranger;
    });
}

TEST(Filter, AGateIsBeforeEveryRoute) {
    std::string seen;
    int failures = 0;
    http::ServerOptions options;
    options.on_failure = [&failures](const http::ServerFailure& /*failure*/) { ++failures; };
    options.gate = [&seen](Request& request, Response& response) {
        seen.append(request.path()).append(request.parameter("none")).append(" ");
        if (request.path() == "/closed") {
            response.refuse(http::Status::forbidden);
            return false;
        }
        if (request.path() == "/throws") {
            throw std::runtime_error("broken");
        }
        if (request.path() == "/says") {
            throw http::StatusError(http::Status::conflict, "the version is 7");
        }
        return true;
    };
    http::Server server(std::move(options));
    for (const char* path : {"/open", "/closed", "/throws", "/says"}) {
        server.get(path, &hello);
        server.upgrade(path, "other", [](http::Upgrade&) -> Task<Result<>> {
            ADD_FAILURE() << "the connection was taken over";
            co_return Result<>();
        });
    }
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const auto answer = [&](std::string_view path, std::string_view more = "") {
            return exchange(endpoint, "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" +
                                          std::string(more) + "\r\n");
        };
        EXPECT_TRUE(has(co_await answer("/open"), "hello"));
        EXPECT_TRUE((co_await answer("/missing")).starts_with("HTTP/1.1 404 "));
        const std::string closed = co_await answer("/closed");
        EXPECT_EQ(status_line(closed), "HTTP/1.1 403 Forbidden");
        EXPECT_TRUE(closed.ends_with("\r\n\r\n403 Forbidden\n")) << closed;
        const std::string upgrade = "Connection: upgrade\r\nUpgrade: other\r\n";
        EXPECT_TRUE((co_await answer("/closed", upgrade)).starts_with("HTTP/1.1 403 "));
        EXPECT_TRUE((co_await answer("/throws")).starts_with("HTTP/1.1 500 "));
        EXPECT_EQ(failures, 1);
        EXPECT_TRUE((co_await answer("/says")).ends_with("409 Conflict: the version is 7\n"));
        EXPECT_EQ(failures, 1);
    });
    EXPECT_EQ(seen, "/open /missing /closed /closed /throws /says ");
}

TEST(Filter, NoRefusalIsKeptByCachesAsTheAnswer) {
    const auto cached = [](Request& /*request*/, Response& response) {
        response.header("Cache-Control", "public, max-age=3600");
        response.header("ETag", "\"1\"");
        return true;
    };
    const http::RateLimit once({.requests = 1, .per = 1h, .burst = 1});
    const auto state = [](const Request& /*request*/) {
        return http::ResourceState{.entity_tag = "\"2\""};
    };
    const auto refused = [](const std::string& found, std::string_view status) {
        const std::string last = found.substr(found.rfind("HTTP/1.1 "));
        EXPECT_EQ(status_line(last), "HTTP/1.1 " + std::string(status));
        EXPECT_FALSE(has(last, "Cache-Control")) << last;
        EXPECT_FALSE(has(last, "ETag: \"1\"")) << last;
    };
    refused(responses(chain(cached, http::BearerAuthorization("a", "secret"), &hello), get()),
            "401 Unauthorized");
    refused(responses(chain(cached, once, &hello), get() + get()), "429 Too Many Requests");
    refused(responses(chain(cached, http::Conditional(state), &hello), get("If-Match: \"1\"\r\n")),
            "412 Precondition Failed");
}

} // namespace
