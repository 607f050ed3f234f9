#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/http/server.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/http/running_server.hpp"

namespace penstock::testing {

inline std::string get(std::string_view path, std::string_view fields = {}) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

inline std::string post(std::string_view path, std::string_view body) {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string(body);
}

template <typename T> std::error_code error_of(const Result<T>& result) {
    return result ? std::error_code() : result.error();
}

inline std::string hello(std::string_view body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string(body);
}

inline Task<Result<>> echo(http::Request& request, http::Response& response) {
    response.body(co_await unwrap(request.text()));
    co_return Result<>();
}

/// A server with a page, a page with a parameter, and an echo, and the failures that it reports.
struct Site {
    std::vector<std::string> failures;
    http::Server server;

    explicit Site(http::ServerOptions options = {})
        : server([&] {
              options.on_failure = [this](const http::ServerFailure& failure) {
                  failures.push_back(failure.to_string());
              };
              return std::move(options);
          }()) {
        server.get("/", [](http::Request&, http::Response& response) { response.body("root"); });
        server.get("/hello/{name}", [](http::Request& request, http::Response& response) {
            response.body("hello " + request.parameter("name"));
        });
        server.post("/echo", echo);
    }

    std::string ask(std::string text) {
        std::string answer;
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            answer = co_await exchange(endpoint, std::move(text));
        });
        return without_date(answer);
    }
};

} // namespace penstock::testing
