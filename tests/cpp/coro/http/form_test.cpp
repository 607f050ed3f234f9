#include <penstock/http/form.hpp>

#include <penstock/http/errors.hpp>
#include <penstock/http/server.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/task/unwrap.hpp>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace penstock;
using http::MultipartForm;
using http::Request;
using http::Response;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::status_line;
using penstock::testing::with_server;

constexpr std::string_view multipart_type = "multipart/form-data; boundary=b";
constexpr std::string_view urlencoded_type = "application/x-www-form-urlencoded; charset=utf-8";

std::string post(std::string_view path, std::string_view type, std::string_view body) {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: a\r\nContent-Type: " + std::string(type) +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string part(std::string_view parameters, std::string_view content) {
    return "--b\r\nContent-Disposition: form-data; " + std::string(parameters) + "\r\n\r\n" +
           std::string(content) + "\r\n";
}

const std::string last = "--b--\r\n";

std::string body_of(const std::string& response) {
    return response.substr(response.find("\r\n\r\n") + 4);
}

/// "name=value;" of each field, and "name<file name,type>=value;" of each file.
std::string told(const http::Form& form) {
    std::string text;
    for (const http::Form::Field& field : form.fields()) {
        text += field.name;
        if (field.file_name) {
            text += "<" + *field.file_name + "," + field.content_type + ">";
        }
        text += "=" + field.value + ";";
    }
    return text;
}

/// The servers of these tests.
struct Site {
    std::vector<std::string> failures;
    http::Server server;

    Site() : server(options()) {
        server.post("/whole", [](Request& request, Response& response) -> Task<Result<>> {
            response.body(told(co_await unwrap(read_form(request, {.value = 100}))));
            co_return Result<>();
        });
    }

    http::ServerOptions options() {
        http::ServerOptions options;
        options.on_failure = [this](const http::ServerFailure& failure) {
            failures.push_back(failure.to_string());
        };
        return options;
    }

    /// The response to one request.
    std::string answer(const std::string& request) {
        std::string response;
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            response = co_await exchange(endpoint, request);
        });
        return response;
    }
};

TEST(HttpForm, BothTypesAreReadAsAWhole) {
    EXPECT_EQ(body_of(Site().answer(post("/whole", urlencoded_type, "a=1+2&b=%26&a="))),
              "a=1 2;b=&;a=;");
    EXPECT_EQ(body_of(Site().answer(post(
                  "/whole", multipart_type,
                  part("name=z", "1") + part("name=f; filename=\"x/y.txt\"", "\r\n2") + last))),
              "z=1;f<x/y.txt,text/plain>=\r\n2;");
    EXPECT_EQ(body_of(Site().answer(post("/whole", urlencoded_type, ""))), "");
}

TEST(HttpForm, ARefusedFormIsTheClientsFault) {
    struct Case {
        std::string_view type;
        std::string body;
        std::string_view status;
    };
    const std::vector<Case> cases{
        {"text/plain", "a=1", "HTTP/1.1 415 Unsupported Media Type"},
        {"multipart/mixed; boundary=b", last, "HTTP/1.1 415 Unsupported Media Type"},
        {"multipart/form-data", last, "HTTP/1.1 400 Bad Request"},
        {multipart_type, part("name=a", "1"), "HTTP/1.1 400 Bad Request"},
        {multipart_type, part("filename=a", "1") + last, "HTTP/1.1 400 Bad Request"},
        {multipart_type, part("name=a", std::string(101, 'x')) + last,
         "HTTP/1.1 413 Content Too Large"},
        {multipart_type, part("name=a; filename=b", std::string(101, 'x')) + last,
         "HTTP/1.1 413 Content Too Large"},
        {urlencoded_type, "a=" + std::string(101, 'x'), "HTTP/1.1 413 Content Too Large"}};
    for (const Case& each : cases) {
        Site site;
        EXPECT_EQ(status_line(site.answer(post("/whole", each.type, each.body))), each.status)
            << each.type << "\n"
            << each.body;
        EXPECT_TRUE(site.failures.empty()) << site.failures.front();
    }
}

TEST(HttpForm, ARefusedFormLeavesTheConnectionInStep) {
    const std::string responses = Site().answer(post("/whole", multipart_type, "no form") +
                                                post("/whole", urlencoded_type, "a=1"));
    EXPECT_TRUE(responses.starts_with("HTTP/1.1 400 "));
    EXPECT_TRUE(responses.ends_with("a=1;"));
}

TEST(HttpForm, APartIsGivenBeforeTheRestHasBeenSent) {
    Site site;
    site.server.post("/stream", [](Request& request, Response& response) -> Task<Result<>> {
        MultipartForm form(request);
        while (std::optional<MultipartForm::Part> next = co_await unwrap(form.next())) {
            co_await unwrap(response.write_all(std::string(next->name()) + ":"));
            co_await unwrap(copy(*next, response));
            co_await unwrap(response.write_all("."));
        }
        co_return Result<>();
    });
    std::string rest;
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        const std::string form = part("name=one", "12") + part("name=two", "") + last;
        const std::string request =
            "POST /stream HTTP/1.0\r\nContent-Length: " + std::to_string(form.size()) +
            "\r\nContent-Type: " + std::string(multipart_type) + "\r\n\r\n";
        const std::size_t cut = form.find("12") + 1;
        expect(co_await stream.write_all(request + form.substr(0, cut)));
        (void)co_await read_until(stream, "one:1");
        expect(co_await stream.write_all(form.substr(cut)));
        rest = expect(co_await read_all_text(stream));
    });
    EXPECT_EQ(rest, "2.two:.");
    EXPECT_TRUE(site.failures.empty());
}

TEST(HttpForm, PartsMayBeSkippedOrReadInSmallPieces) {
    Site site;
    std::string read;
    std::string error;
    site.server.post("/some", [&](Request& request, Response&) -> Task<Result<>> {
        MultipartForm form(request);
        auto skipped = *co_await unwrap(form.next());
        auto second = *co_await unwrap(form.next());
        read = std::string(second.name()) + "," + second.base_name() + ",";
        std::array<char, 2> piece{};
        while (const std::size_t size = co_await unwrap(second.read(piece))) {
            read.append(piece.data(), size).append("|");
        }
        EXPECT_EQ(co_await unwrap(second.read(piece)), 0U);
        try {
            (void)co_await skipped.text();
        } catch (const std::logic_error& thrown) {
            error = thrown.what();
        }
        auto third = *co_await unwrap(form.next());
        read += co_await unwrap(third.text());
        EXPECT_FALSE((co_await unwrap(form.next())).has_value());
        EXPECT_FALSE((co_await unwrap(form.next())).has_value());
        co_return Result<>();
    });
    const std::string response = site.answer(post("/some", multipart_type,
                                                  part("name=a", std::string(100'000, '\r')) +
                                                      part("name=b; filename=\"..\\c\"", "12345") +
                                                      part("name=c", "end") + last));
    EXPECT_TRUE(response.starts_with("HTTP/1.1 200 ")) << response;
    EXPECT_EQ(read, "b,c,12|34|5|end");
    EXPECT_EQ(error, "a part of a form is read after the form's next part: read it before calling "
                     "next");
}

TEST(HttpForm, TheLimitOfTheBodyHoldsToo) {
    Site site;
    site.server.post("/small",
                     [](Request& request, Response&) -> Task<Result<>> {
                         (void)co_await unwrap(read_form(request));
                         co_return Result<>();
                     },
                     {.body_limit = 10});
    EXPECT_TRUE(
        site.answer(post("/small", urlencoded_type, "a=123456789")).starts_with("HTTP/1.1 413 "));
}

TEST(HttpForm, AClientThatGoesInTheMiddleIsAnErrorOfTheBody) {
    Site site;
    std::error_code error;
    site.server.post("/cut", [&](Request& request, Response&) -> Task<Result<>> {
        MultipartForm form(request);
        auto first = *co_await unwrap(form.next());
        const Result<std::string> text = co_await first.text();
        error = text.error();
        co_return failure(text.error());
    });
    const std::string whole = post("/cut", multipart_type, part("name=a", "12345") + last);
    site.answer(whole.substr(0, whole.find("12345") + 2));
    EXPECT_EQ(error, http::Error::truncated);
}

TEST(HttpForm, FieldsAreFoundByName) {
    http::Form form;
    form.add({.name = "a", .value = "1"});
    form.add({.name = "a", .value = "2"});
    EXPECT_EQ(form.value("a"), "1");
    EXPECT_EQ(form.value("b"), std::nullopt);
    EXPECT_EQ(form.find("b"), nullptr);
}

TEST(HttpForm, ErrorsHaveACategory) {
    const std::error_code error = http::FormError::truncated;
    EXPECT_EQ(std::string(error.category().name()), "penstock.http.form");
    EXPECT_EQ(error.message(), "the form ends before its last delimiter");
}

} // namespace
