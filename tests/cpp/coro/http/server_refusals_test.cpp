// Requests that a server must refuse: malformed, ambiguous (request smuggling), too large, slow.

#include <penstock/http/server.hpp>

#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace penstock;
using http::Request;
using http::Response;
using http::Server;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::status_line;
using penstock::testing::with_server;

http::ServerOptions quiet_options() {
    http::ServerOptions options;
    options.on_failure = [](const http::ServerFailure& failure) {
        ADD_FAILURE() << failure.to_string();
    };
    return options;
}

void add_routes(Server& server) {
    server.get("/", [](Request&, Response& response) { response.body("root"); });
    server.post("/", [](Request& request, Response& response) -> Task<Result<>> {
        response.body(co_await unwrap(request.text()));
        co_return Result<>();
    });
}

struct Refusal {
    std::string_view what;
    std::string request;
    int status;
};

const std::string chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
/// Would be a second response if the server went on after the refused request.
const std::string smuggled = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

std::vector<Refusal> refusals() {
    return {
        {"both framings",
         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: "
         "chunked\r\n\r\n0\r\n\r\n",
         400},
        {"both framings, the other order",
         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
         "0\r\n\r\n",
         400},
        {"two lengths",
         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345", 400},
        {"two equal lengths",
         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n12345", 400},
        {"a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n12345",
         400},
        {"a signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n12345", 400},
        {"a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
        {"a hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n12345",
         400},
        {"an enormous length",
         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
        {"an empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
        {"another transfer coding before chunked",
         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"another transfer coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
         400},
        {"a coding after chunked",
         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
         400},
        {"chunked twice",
         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
         "chunked\r\n\r\n0\r\n\r\n",
         400},
        {"a disguised coding",
         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
        {"a coding with a tab before the colon",
         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400},
        {"chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         400},
        {"a folded line", "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", 400},
        {"a space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
        {"a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"a bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400},
        {"a bare LF in the fields", "GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n", 400},
        {"a bare CR", "GET / HTTP/1.1\r\nHost: a\r\nA: b\rC: d\r\n\r\n", 400},
        {"a zero byte", "GET / HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n"s, 400},
        {"a field without a name", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
        {"a field without a colon", "GET / HTTP/1.1\r\nHost: a\r\nA\r\n\r\n", 400},
        {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
        {"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"an impossible Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        {"an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
        {"a Host with an impossible port", "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400},
        {"a fragment", "GET /?#a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"another scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"no version", "GET /\r\n\r\n", 400},
        {"another version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"a malformed version", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
        {"no method", " / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"a method that is no token", "G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"a target without a slash", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"an asterisk for GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"the hello of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s, 400},
        {"a long target", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
        {"a long field", "GET / HTTP/1.1\r\nHost: a\r\nA: " + std::string(9000, 'a') + "\r\n\r\n",
         431},
        {"a large head",
         [] {
             std::string text = "GET / HTTP/1.1\r\nHost: a\r\n";
             for (int i = 0; i < 40; ++i) {
                 text += "A: " + std::string(1000, 'a') + "\r\n";
             }
             return text + "\r\n";
         }(),
         431},
        {"too many fields",
         [] {
             std::string text = "GET / HTTP/1.1\r\nHost: a\r\n";
             for (int i = 0; i < 100; ++i) {
                 text += "A: b\r\n";
             }
             return text + "\r\n";
         }(),
         431},
        {"a chunk size that is no number", chunked + "x\r\n", 400},
        {"a negative chunk size", chunked + "-1\r\n", 400},
        {"a chunk size with a prefix", chunked + "0x3\r\nabc\r\n0\r\n\r\n", 400},
        {"a space before a chunk size", chunked + " 3\r\nabc\r\n0\r\n\r\n", 400},
        {"an enormous chunk size", chunked + "fffffffffffffffff\r\n", 400},
        {"a chunk that ends early", chunked + "5\r\nabc\r\n0\r\n\r\n", 400},
        {"a chunk that ends late", chunked + "2\r\nabc\r\n0\r\n\r\n", 400},
        {"a bare LF after a chunk size", chunked + "3\nabc\r\n0\r\n\r\n", 400},
        {"a bare LF after a chunk", chunked + "3\r\nabc\n0\r\n\r\n", 400},
        {"a control character in a chunk extension", chunked + "3;a=\x01\r\nabc\r\n0\r\n\r\n", 400},
        {"endless chunk extensions", chunked + "3;" + std::string(5000, 'a') + "\r\nabc\r\n", 400},
        {"a length among the trailers", chunked + "0\r\nContent-Length: 3\r\n\r\n", 400},
        {"a malformed trailer", chunked + "0\r\nA\r\n\r\n", 400},
        {"a connection for a tunnel", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
    };
}

TEST(HttpServerRefusals, RefuseEachMalformedRequestAndClose) {
    Server server(quiet_options());
    add_routes(server);
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        for (const Refusal& refusal : refusals()) {
            const std::string text = co_await exchange(endpoint, refusal.request + smuggled);
            EXPECT_EQ(status_line(text).substr(0, 13),
                      "HTTP/1.1 " + std::to_string(refusal.status) + " ")
                << refusal.what;
            EXPECT_EQ(text.find("root"), std::string::npos) << refusal.what;
            EXPECT_NE(text.find("\r\nConnection: close\r\n"), std::string::npos) << refusal.what;
        }
    });
}

TEST(HttpServerRefusals, RefuseAlsoWhenTheRequestComesByteByByte) {
    Server server(quiet_options());
    add_routes(server);
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        for (const Refusal& refusal : refusals()) {
            if (refusal.request.size() > 300) {
                continue;
            }
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            for (const char& c : refusal.request) {
                if (!co_await stream.write_all(Bytes(&c, 1))) {
                    break; // the server has closed after what was wrong
                }
                (void)co_await sleep_for(0s);
            }
            (void)stream.shutdown();
            const std::string text = expect(co_await read_all_text(stream));
            EXPECT_EQ(status_line(text).substr(0, 13),
                      "HTTP/1.1 " + std::to_string(refusal.status) + " ")
                << refusal.what;
        }
    });
}

/// Time-outs so short that a test need not wait for long.
http::ServerOptions impatient() {
    http::ServerOptions options = quiet_options();
    options.timeouts = {.idle = 30ms,
                        .head = 30ms,
                        .body = 30ms,
                        .body_rate = 1'000'000,
                        .write = 50ms,
                        .write_rate = 1'000'000'000,
                        .linger = 50ms};
    return options;
}

TEST(HttpServerRefusals, CloseAConnectionThatAsksNothing) {
    Server server(impatient());
    add_routes(server);
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        EXPECT_EQ(expect(co_await read_all_text(stream)), "");
        stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(smuggled));
        EXPECT_TRUE(expect(co_await read_all_text(stream)).ends_with("\r\n\r\nroot"));
    });
}

TEST(HttpServerRefusals, AnswerASlowHeadWith408) {
    Server server(impatient());
    add_routes(server);
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all("GET / HTTP/1.1\r\n"));
        EXPECT_EQ(status_line(expect(co_await read_all_text(stream))),
                  "HTTP/1.1 408 Request Timeout");
        // A byte now and then does not help.
        stream = expect(co_await net::TcpStream::connect(endpoint));
        std::string text;
        while (text.empty()) {
            if (!co_await stream.write_all("A")) {
                break;
            }
            std::array<char, 100> bytes{};
            const Result<std::size_t> size = co_await timeout(5ms, stream.read(bytes));
            text.append(bytes.data(), size ? *size : 0);
        }
        EXPECT_EQ(status_line(text), "HTTP/1.1 408 Request Timeout");
    });
}

TEST(HttpServerRefusals, AnswerASlowBodyWith408AndCancelItsHandler) {
    Server server(impatient());
    Result<> read;
    server.post("/", [&](Request& request, Response&) -> Task<Result<>> {
        const Result<std::string> text = co_await request.text();
        read = text ? Result<>() : failure(text.error());
        co_return read;
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nslow"));
        EXPECT_EQ(status_line(expect(co_await read_all_text(stream))),
                  "HTTP/1.1 408 Request Timeout");
    });
    EXPECT_EQ(read.error(), std::errc::operation_canceled);
}

TEST(HttpServerRefusals, ATimeOfZeroAndTheLongestOneAreNoLimit) {
    for (const std::chrono::milliseconds time :
         {http::ServerTimeouts::none, std::chrono::milliseconds::max()}) {
        http::ServerOptions options = quiet_options();
        options.timeouts = {.idle = time,
                            .head = time,
                            .body = time,
                            .body_rate = 1,
                            .write = time,
                            .linger = time};
        Server server(options);
        server.post("/", [](Request& request, Response& response) -> Task<Result<>> {
            response.body(co_await unwrap(request.text()));
            co_return Result<>();
        });
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            for (const std::string_view part :
                 {"POST / HTTP/1.1\r\n", "Host: a\r\nContent-Length: 4\r\n\r\n", "la", "te"}) {
                (void)co_await sleep_for(5ms); // so that the server waits in each state
                expect(co_await stream.write_all(part));
            }
            EXPECT_TRUE((co_await read_until(stream, "late")).starts_with("HTTP/1.1 200 "));
        });
    }
}

TEST(HttpServerRefusals, CloseWhenTheClientDoesNotRead) {
    Server server(impatient());
    Result<> written;
    sync::Event ended;
    server.get("/", [&](Request&, Response& response) -> Task<Result<>> {
        const std::string part(100'000, 'x');
        do {
            written = co_await response.write_all(part);
        } while (written);
        ended.set();
        co_return written;
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream client = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await client.write_all(smuggled));
        (void)co_await ended.wait();
    });
    EXPECT_EQ(written.error(), std::errc::timed_out);
}

TEST(HttpServerRefusals, AHandlerMayTakeItsTime) {
    Server server(impatient());
    server.get("/", [](Request&, Response& response) -> Task<void> {
        (void)co_await sleep_for(100ms);
        response.body("late");
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(smuggled));
        EXPECT_TRUE((co_await read_until(stream, "late")).starts_with("HTTP/1.1 200 "));
    });
}

TEST(HttpServerRefusals, AClientThatDisappearsIsNoFailure) {
    Server server(quiet_options());
    add_routes(server);
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        for (const std::string_view text :
             {"", "G", "GET / HTTP/1.1\r\nHost: a\r\n",
              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
              "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"}) {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await stream.write_all(text));
            expect(stream.shutdown());
            EXPECT_EQ(expect(co_await read_all_text(stream)), "");
            stream = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await stream.write_all(text));
            stream.reset();
        }
        EXPECT_TRUE((co_await exchange(endpoint, smuggled)).ends_with("root"));
    });
}

} // namespace
