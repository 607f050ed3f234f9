// The server under curl, and behind nginx.

#include <penstock/http/server.hpp>

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/unix_stream.hpp>
#include <penstock/process/command.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/upgrade.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/http/running_server.hpp"
#include "coro/support/nginx.hpp"
#include "support/required_program.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using http::Request;
using http::Response;
using penstock::testing::expect;
using penstock::testing::Nginx;
using penstock::testing::require_program;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

Task<Result<>> echo(ws::WebSocket& socket) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

/// The server of these tests. "/mirror" appends to `seen`.
struct Site {
    http::Server server;

    Site(const TemporaryFolder& folder, std::string& seen) {
        server.get("/hello", [](Request&, Response& response) { response.body("hello"); });
        server.get("/parts", [](Request&, Response& response) -> Task<Result<>> {
            for (int i = 0; i < 5; ++i) {
                co_await unwrap(
                    response.write_all(std::string(50'000, static_cast<char>('a' + i))));
            }
            co_return Result<>();
        });
        server.post("/mirror",
                    [&seen](Request& request, Response& response) -> Task<Result<>> {
                        seen.append(request.header("Expect").value_or("")).append("|");
                        seen.append(request.header("Transfer-Encoding").value_or(""));
                        co_await unwrap(copy(request, response));
                        co_return Result<>();
                    },
                    {.body_limit = 1 << 24});
        server.post("/forbidden",
                    [](Request&, Response& response) {
                        response.status(http::Status::forbidden);
                        response.body("no");
                    },
                    {.body_limit = 1 << 24});
        server.upgrade("/socket", "websocket", ws::upgrade_handler(echo));
        expect(server.files("/files", folder.path("")));
    }
};

class HttpUnderCurl : public ::testing::Test {
protected:
    void SetUp() override {
        require_program("curl", std::filesystem::exists("/usr/bin/curl"));
        folder_.fill("digits", "0123456789");
    }

    /// What curl writes. `{}` in an argument is the server's address.
    std::string curl(std::vector<std::string> arguments, std::string input = {}) {
        const Watchdog watchdog;
        std::string written;
        Site site(folder_, seen_);
        with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
            process::Command command("/usr/bin/curl");
            command.arguments({"-q", "--silent", "--show-error", "--max-time", "50"});
            for (std::string& each : arguments) {
                if (const std::size_t at = each.find("{}"); at != std::string::npos) {
                    each.replace(at, 2, "http://" + endpoint.to_string());
                }
                command.argument(each);
            }
            process::Output output = expect(co_await command.output(std::move(input)));
            EXPECT_EQ(output.status, process::ExitStatus::exited(0)) << output.error;
            written = std::move(output.output);
        });
        return written;
    }

    TemporaryFolder folder_;
    std::string seen_;
};

TEST_F(HttpUnderCurl, KeepsTheConnectionOpen) {
    EXPECT_EQ(curl({"-w", " %{http_code} %{num_connects}\n", "{}/hello", "{}/hello", "{}/none",
                    "{}/files/digits"}),
              "hello 200 1\nhello 200 0\n404 Not Found\n 404 0\n0123456789 200 0\n");
}

TEST_F(HttpUnderCurl, ServesManyConnections) {
    EXPECT_EQ(curl({"--parallel", "--parallel-immediate", "{}/hello?[1-40]"}).size(), 40 * 5);
}

TEST_F(HttpUnderCurl, ReadsResponsesInParts) {
    const std::string parts = curl({"{}/parts"});
    EXPECT_EQ(parts.size(), 250'000);
    EXPECT_TRUE(parts.starts_with("aaa") && parts.ends_with("eee"));
    EXPECT_EQ(curl({"--http1.0", "-w", "%{http_version}", "{}/parts"}), parts + "1.1");
}

TEST_F(HttpUnderCurl, UploadsInChunks) {
    const std::string body(300'000, 'c');
    EXPECT_TRUE(curl({"-X", "POST", "-T", "-", "-H", "Expect:", "{}/mirror"}, body) == body);
    EXPECT_EQ(seen_, "|chunked");
}

TEST_F(HttpUnderCurl, WaitsForPermissionToUpload) {
    const std::string body(2'000'000, 'u');
    const std::vector<std::string> options = {
        "--expect100-timeout", "40", "-H", "Expect: 100-continue", "--data-binary", "@-", "-w"};
    std::vector<std::string> arguments = options;
    arguments.insert(arguments.end(), {"%{size_upload}", "{}/mirror"});
    EXPECT_TRUE(curl(arguments, body) == body + "2000000");
    EXPECT_EQ(seen_, "100-continue|");
}

TEST_F(HttpUnderCurl, IsSparedARefusedUpload) {
    EXPECT_EQ(curl({"--expect100-timeout", "40", "-H", "Expect: 100-continue", "--data-binary",
                    "@-", "-w", " %{http_code} %{size_upload}", "{}/forbidden"},
                   std::string(2'000'000, 'u')),
              "no 403 0");
}

TEST_F(HttpUnderCurl, GetsRangesOfFiles) {
    const std::string status = " %{http_code}\n";
    EXPECT_EQ(curl({"-w", status, "-r", "2-4", "{}/files/digits"}), "234 206\n");
    EXPECT_EQ(curl({"-w", status, "-r", "-3", "{}/files/digits"}), "789 206\n");
    EXPECT_EQ(curl({"-w", status, "-C", "6", "{}/files/digits"}), "6789 206\n");
    EXPECT_EQ(curl({"-w", status, "-o", "/dev/null", "-r", "20-", "{}/files/digits"}), " 416\n");
}

TEST_F(HttpUnderCurl, AsksForHeadsAndForChanges) {
    const std::string head = curl({"--head", "{}/files/digits"});
    EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n"));
    EXPECT_NE(head.find("\r\nContent-Length: 10\r\n"), std::string::npos);
    EXPECT_TRUE(head.ends_with("\r\n\r\n"));
    const std::string tag = folder_.path("tag");
    const std::string code = "%{http_code}";
    EXPECT_EQ(curl({"-w", code, "--etag-save", tag, "{}/files/digits"}), "0123456789200");
    EXPECT_EQ(curl({"-w", code, "--etag-compare", tag, "{}/files/digits"}), "304");
}

class HttpBehindNginx : public ::testing::Test {
protected:
    void SetUp() override { require_program("nginx", Nginx::is_installed()); }

    /// Runs `talk` with a connection to nginx, which keeps its own to the server open.
    template <typename Talk> void with_nginx(Talk talk) {
        const Watchdog watchdog;
        const auto count = [this](net::TcpStream stream) -> Task<Result<net::TcpStream>> {
            ++accepted_;
            co_return stream;
        };
        const auto talking = [&](net::Endpoint endpoint) -> Task<Result<>> {
            co_await nginx_.start(
                "location / { proxy_pass http://back; proxy_http_version 1.1;\n"
                "proxy_set_header Connection $connection_value;\n"
                "proxy_set_header Upgrade $http_upgrade;\n"
                "proxy_request_buffering off; proxy_buffering off; }",
                "map $http_upgrade $connection_value { default upgrade; '' ''; }\n"
                "upstream back { keepalive 1; server " +
                    endpoint.to_string() + "; }");
            co_await talk(expect(co_await net::UnixStream::connect(
                expect(net::UnixEndpoint::path(nginx_.socket())))));
            site_.server.stop(1h);
            co_return Result<>();
        };
        const auto program = [&]() -> Task<> {
            net::TcpListener listener = penstock::testing::listen_on_loopback();
            const net::Endpoint endpoint = expect(listener.local_endpoint());
            expect(co_await all(site_.server.serve(std::move(listener), count), talking(endpoint)));
        };
        run(program());
    }

    TemporaryFolder folder_;
    std::string seen_;
    Site site_{folder_, seen_};
    Nginx nginx_;
    int accepted_ = 0;
};

TEST_F(HttpBehindNginx, KeepsOneUpstreamConnection) {
    with_nginx([](net::UnixStream stream) -> Task<void> {
        for (int i = 0; i < 20; ++i) {
            expect(co_await stream.write_all("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
            const std::string answer = co_await penstock::testing::read_until(stream, "hello");
            EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
        }
    });
    EXPECT_EQ(accepted_, 1);
}

TEST_F(HttpBehindNginx, PassesBodiesInChunks) {
    with_nginx([](net::UnixStream stream) -> Task<void> {
        expect(co_await stream.write_all("POST /mirror HTTP/1.1\r\nHost: a\r\n"
                                         "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"));
        // The first part comes back before the second one is sent.
        const std::string head = co_await penstock::testing::read_until(stream, "hello\r\n");
        EXPECT_NE(head.find("\r\nTransfer-Encoding: chunked\r\n"), std::string::npos) << head;
        expect(co_await stream.write_all("6\r\n world\r\n0\r\n\r\n"));
        EXPECT_EQ(co_await penstock::testing::read_until(stream, "0\r\n\r\n"),
                  "6\r\n world\r\n0\r\n\r\n");
        expect(co_await stream.write_all(
            "GET /parts HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        const std::string parts = expect(co_await read_all_text(stream));
        for (const char each : {'a', 'b', 'c', 'd', 'e'}) {
            EXPECT_EQ(std::ranges::count(parts.substr(parts.find("\r\n\r\n")), each) / 50'000, 1)
                << each;
        }
    });
    EXPECT_EQ(seen_, "|chunked");
    EXPECT_EQ(accepted_, 1);
}

TEST_F(HttpBehindNginx, CarriesWebSockets) {
    with_nginx([](net::UnixStream stream) -> Task<void> {
        auto socket = expect(co_await ws::BasicWebSocket<net::UnixStream>::connect(
            std::move(stream), "a", "/socket"));
        for (const std::size_t size : {1, 126, 70'000}) {
            const std::string text(size, 'w');
            expect(co_await socket.send_text(text));
            EXPECT_TRUE(expect(co_await socket.receive()).text() == text) << size;
        }
        expect(co_await socket.close());
        EXPECT_EQ(socket.close_code(), ws::close_code::normal);
    });
}

} // namespace
