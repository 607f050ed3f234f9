// What http::Client makes of responses that are unusual or wrong. curl(1) is asked for the same and
// has to come to the same status and body, or has to fail too.

#include <penstock/http/client.hpp>

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "support/required_program.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::run;
using penstock::Task;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::Method;
using penstock::process::Command;
using penstock::process::ExitStatus;
using penstock::testing::expect;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::ServeFunction;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

/// The status, a space and the body; or the name of the error.
using Outcome = std::string;

struct Response {
    std::string name;
    /// Everything that the server sends, before it closes the connection.
    std::string bytes;
    Outcome expected;
    Method method = Method::get;
    /// How what curl(1) returns begins, where it accepts what the client refuses.
    Outcome accepted_by_curl = {};
};

const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string ok(std::string_view fields, std::string_view body) {
    return "HTTP/1.1 200 OK\r\n" + std::string(fields) + "\r\n" + std::string(body);
}

std::string bytes_of(std::initializer_list<int> values) {
    std::string text;
    for (const int value : values) {
        text += static_cast<char>(value);
    }
    return text;
}

std::vector<Response> responses() {
    const std::string brotli = bytes_of({0x0b, 0x02, 0x80}) + "hello" + bytes_of({0x03});
    // Magic number, descriptor of a single segment, its size, a raw block that is the last.
    const std::string zstd =
        bytes_of({0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x05, 0x29, 0x00, 0x00}) + "hello";
    return {
        {"chunks with trailers", chunked + "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", "200 abc"},
        {"chunk extensions", chunked + "3;a=b\r\nabc\r\n0;c\r\n\r\n", "200 abc"},
        {"hexadecimal in both cases",
         chunked + "00A\r\n0123456789\r\nb\r\n0123456789a\r\n0\r\n\r\n",
         "200 01234567890123456789a"},
        {"no length", ok("", "abc"), "200 abc"},
        {"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nabc", "200 abc"},
        {"interim responses",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" +
             ok("Content-Length: 2\r\n", "ok"),
         "200 ok"},
        {"304 with a length", "HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n", "304 "},
        {"204 with a length", "HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\n", "204 "},
        {"HEAD with a length", ok("Content-Length: 5\r\n", ""), "200 ", Method::head},
        {"HEAD with chunks", chunked, "200 ", Method::head},
        {"the same length twice", ok("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
         "200 abc"},
        {"two lengths", ok("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
         "invalid_response", Method::get, "200 "},
        {"a list of lengths", ok("Content-Length: 3, 3\r\n", "abc"), "200 abc"},
        {"a list of two lengths", ok("Content-Length: 3, 4\r\n", "abcd"), "invalid_response",
         Method::get, "200 "},
        {"a negative length", ok("Content-Length: -3\r\n", "abc"), "invalid_response"},
        {"no number as length", ok("Content-Length: x\r\n", "abc"), "invalid_response"},
        {"a huge length", ok("Content-Length: 99999999999999999999\r\n", "abc"), "invalid_response",
         Method::get, "200 "},
        {"length and chunks",
         ok("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "4\r\nabcd\r\n0\r\n\r\n"),
         "200 abcd"},
        {"bytes beyond the length", ok("Content-Length: 3\r\n", "abcdef"), "200 abc"},
        {"bare LF", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", "200 abc"},
        {"bare LF between chunks", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
         "200 abc"},
        {"a field without a colon", ok("no colon\r\nContent-Length: 3\r\n", "abc"),
         "invalid_response"},
        {"a space before the colon", ok("X-A : 1\r\nContent-Length: 3\r\n", "abc"),
         "invalid_response", Method::get, "200 "},
        {"a NUL in a field", ok(std::string_view("X-A: a\0b\r\n", 10), "abc"), "invalid_response"},
        {"a folded field", ok("X-A: a\r\n b\r\nContent-Length: 3\r\n", "abc"), "200 abc"},
        {"a field of 64 KB", ok("X-A: " + std::string(64'000, 'a') + "\r\n", "abc"), "200 abc"},
        {"many fields of 200 KB",
         [] {
             std::string fields;
             for (int i = 0; i < 2000; ++i) {
                 fields += "X-Field: " + std::string(89, 'a') + "\r\n";
             }
             return ok(fields, "abc");
         }(),
         "200 abc"},
        {"fields of 2 MB",
         [] {
             std::string fields;
             for (int i = 0; i < 40; ++i) {
                 fields += "X-Field: " + std::string(50'000, 'a') + "\r\n";
             }
             return ok(fields, "abc");
         }(),
         "invalid_response"},
        {"a field of 200 KB", ok("X-A: " + std::string(200'000, 'a') + "\r\n", "abc"),
         "invalid_response"},
        {"a reason of 200 KB", "HTTP/1.1 200 " + std::string(200'000, 'a') + "\r\n\r\nabc",
         "invalid_response"},
        {"interim responses of 280 KB",
         [] {
             std::string text;
             for (int i = 0; i < 10'000; ++i) {
                 text += "HTTP/1.1 102 X\r\nA: bcde\r\n\r\n";
             }
             return text + ok("Content-Length: 2\r\n", "ok");
         }(),
         "invalid_response", Method::get, "200 "},
        {"a truncated length", ok("Content-Length: 5\r\n", "abc"), "truncated"},
        {"a truncated chunk", chunked + "5\r\nabc", "truncated"},
        {"no last chunk", chunked + "3\r\nabc\r\n", "truncated"},
        {"a truncated head", "HTTP/1.1 200 OK\r\nContent-Le", "truncated", Method::get, "200 "},
        {"no number as size of a chunk", chunked + "xyz\r\nabc\r\n0\r\n\r\n", "invalid_response"},
        {"a huge chunk", chunked + "fffffffffffffffff\r\nabc\r\n0\r\n\r\n", "invalid_response"},
        {"nothing", "", "connection_lost"},
        {"no head", "hello", "invalid_response"},
        {"no reason", "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", "200 abc"},
        {"two spaces", "HTTP/1.1  200 OK\r\nContent-Length: 3\r\n\r\nabc", "200 abc"},
        {"a status of two digits", "HTTP/1.1 99 OK\r\nContent-Length: 3\r\n\r\nabc",
         "invalid_response"},
        {"a status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 3\r\n\r\nabc",
         "invalid_response"},
        {"an unknown version", "HTTP/4.2 200 OK\r\nContent-Length: 3\r\n\r\nabc",
         "invalid_response"},
        {"an unknown status", "HTTP/1.1 599 X\r\nContent-Length: 3\r\n\r\nabc", "599 abc"},
        {"an upgrade that nobody asked for",
         "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc", "invalid_response",
         Method::get, "101 "},
        {"brotli, which was not asked for", ok("Content-Encoding: br\r\n", brotli),
         "undecodable_body", Method::get, "200 "},
        {"zstd, which was not asked for", ok("Content-Encoding: zstd\r\n", zstd),
         "undecodable_body", Method::get, "200 "},
        {"a coding of a HEAD response", ok("Content-Encoding: x-unknown\r\n", ""), "200 ",
         Method::head},
        {"no byte of gzip", ok("Content-Encoding: gzip\r\nContent-Length: 0\r\n", ""), "200 "},
        {"damaged gzip", ok("Content-Encoding: gzip\r\n", "not gzip at all"), "undecodable_body"},
        {"an unknown coding", ok("Content-Encoding: x-unknown\r\n", "abc"), "undecodable_body"},
        {"an unknown transfer coding", ok("Transfer-Encoding: x-unknown\r\n", "abc"),
         "undecodable_body"},
        {"a redirect without a target", "HTTP/1.1 302 X\r\nContent-Length: 3\r\n\r\nabc",
         "302 abc"},
        {"a redirect to itself", "HTTP/1.1 302 X\r\nLocation: ?\r\nContent-Length: 0\r\n\r\n",
         "too_many_redirects"},
        {"a redirect to a file",
         "HTTP/1.1 302 X\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
         "unsupported_scheme"},
    };
}

const char* name_of(const std::error_code& error) {
    constexpr std::pair<ClientError, const char*> names[] = {
        {ClientError::truncated, "truncated"},
        {ClientError::connection_lost, "connection_lost"},
        {ClientError::invalid_response, "invalid_response"},
        {ClientError::undecodable_body, "undecodable_body"},
        {ClientError::too_many_redirects, "too_many_redirects"},
        {ClientError::unsupported_scheme, "unsupported_scheme"},
        {ClientError::timed_out, "timed_out"}};
    for (const auto& [kind, name] : names) {
        if (error == kind) {
            return name;
        }
    }
    return "another error";
}

/// "/3" asks for the response number 3.
ServeFunction sending(const std::vector<Response>& responses) {
    return [&responses](ServedConnection& connection) -> Task<> {
        if (const auto request = co_await connection.head()) {
            const std::size_t number = std::stoul(request->target.substr(1));
            (void)co_await connection.send(responses.at(number).bytes);
        }
    };
}

Task<Outcome> ask_client(const std::string& url, Method method) {
    Client client;
    const auto response = co_await client.fetch({.url = url, .method = method});
    co_return response ? std::to_string(code(response->status)) + " " + response->body
                       : name_of(response.error());
}

Task<Outcome> ask_curl(const std::string& url, Method method) {
    std::vector<std::string> arguments{"-q",
                                       "-sS",
                                       "--http1.1",
                                       "--noproxy",
                                       "*",
                                       "--compressed",
                                       "-L",
                                       "--max-redirs",
                                       "10",
                                       "--max-time",
                                       "60",
                                       "-w",
                                       "%{stderr}status=%{http_code};"};
    if (method == Method::head) {
        arguments.insert(arguments.end(), {"--head", "-o", "/dev/null"});
    }
    arguments.push_back(url);
    Command command("curl");
    for (const std::string& argument : arguments) {
        command.argument(argument);
    }
    const auto ended = expect(co_await command.output());
    const std::size_t status = ended.error.find("status=");
    if (ended.status != ExitStatus::exited(0) || status == std::string::npos) {
        co_return "error: " + ended.error;
    }
    co_return ended.error.substr(status + 7, 3) + " " + ended.output;
}

TEST(HttpClientOddServers, AreTakenAsCurlTakesThem) {
    penstock::testing::require_program("curl", std::system("command -v curl >/dev/null") == 0);
    if (IsSkipped() || HasFatalFailure()) {
        return;
    }
    const Watchdog watchdog;
    const std::vector<Response> table = responses();
    run(with_server(sending(table), [&](const ScriptedServer& server) -> Task<> {
        for (std::size_t number = 0; number < table.size(); ++number) {
            const Response& response = table[number];
            const std::string url = server.url + "/" + std::to_string(number);
            const Outcome ours = co_await ask_client(url, response.method);
            EXPECT_EQ(ours, response.expected) << response.name;
            const Outcome curls = co_await ask_curl(url, response.method);
            if (curls.starts_with("error")) {
                EXPECT_FALSE(ours.front() <= '9') << response.name << ": " << curls;
            } else if (response.accepted_by_curl.empty()) {
                EXPECT_EQ(ours, curls) << response.name;
            } else {
                EXPECT_EQ(curls.substr(0, 4), response.accepted_by_curl) << response.name;
            }
        }
    }));
}

} // namespace
