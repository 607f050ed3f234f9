// Requests and responses of http::Client, against a server that sends what a test wants.

#include <penstock/http/client.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::AsyncGenerator;
using penstock::failure;
using penstock::Result;
using penstock::Task;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::ClientOptions;
using penstock::http::ClientResponse;
using penstock::http::FetchedResponse;
using penstock::http::Method;
using penstock::http::RequestBody;
using penstock::http::Status;
using penstock::testing::answering;
using penstock::testing::describe;
using penstock::testing::expect;
using penstock::testing::ReceivedRequest;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::TemporaryFolder;
using penstock::testing::with;
using penstock::testing::words;

TEST(HttpClient, GetsAWholeResponse) {
    with(
        [](ServedConnection& connection) -> Task<> {
            const ReceivedRequest request = (co_await connection.request()).value();
            EXPECT_EQ(request.method, "GET");
            EXPECT_EQ(request.target, "/a?b=c");
            EXPECT_EQ(request.field("x-mine"), "1");
            EXPECT_EQ(request.field("x-empty"), "");
            EXPECT_EQ(request.field("user-agent"), "penstock");
            EXPECT_NE(request.field("accept-encoding").find("gzip"), std::string::npos);
            EXPECT_FALSE(request.has("expect"));
            (void)co_await connection.respond(404, "no such page",
                                              "X-Two: a\r\nx-two:  b\r\n continued\r\n");
        },
        [](const ScriptedServer& server) -> Task<> {
            Client client;
            const FetchedResponse response = expect(co_await client.get(
                server.url + "/a?b=c#part", {{"X-Mine", "1"}, {"X-Empty", ""}}));
            EXPECT_EQ(response.status, Status::not_found);
            EXPECT_EQ(response.version, penstock::http::Version::http_1_1);
            EXPECT_EQ(response.body, "no such page");
            EXPECT_EQ(response.headers.count("X-TWO"), 2U);
            EXPECT_EQ(response.headers[1].value, "b continued");
            EXPECT_EQ(response.url, server.url + "/a?b=c");
            EXPECT_EQ(response.redirects, 0U);
        });
}

TEST(HttpClient, SendsEachMethod) {
    with(answering(describe), [](const ScriptedServer& server) -> Task<> {
        Client client;
        const std::string url = server.url + "/x";
        EXPECT_EQ(expect(co_await client.post(url, "text")).body, "POST /x [text]");
        EXPECT_EQ(expect(co_await client.put(url, "text")).body, "PUT /x [text]");
        EXPECT_EQ(expect(co_await client.patch(url, "")).body, "PATCH /x []");
        EXPECT_EQ(expect(co_await client.delete_(url)).body, "DELETE /x []");
        EXPECT_EQ(expect(co_await client.head(url)).body, "");
        EXPECT_EQ(expect(co_await client.fetch({.url = url, .method = Method("REPORT")})).body,
                  "REPORT /x []");
        EXPECT_EQ(
            expect(co_await client.fetch({.url = url, .method = Method::get, .body = "b"})).body,
            "GET /x [b]");
        EXPECT_EQ(server.connections, 1U);
    });
}

TEST(HttpClient, SendsBodiesWithLengthAndInChunks) {
    with(answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
             (void)co_await connection.respond(200, request.field("content-length") + " " +
                                                        request.field("transfer-encoding") + " " +
                                                        request.body);
         }),
         [](const ScriptedServer& server) -> Task<> {
             Client client;
             const TemporaryFolder folder;
             EXPECT_EQ(expect(co_await client.post(server.url,
                                                   RequestBody::generated(words({"ab", "", "cd"}))))
                           .body,
                       "(none) chunked abcd");
             EXPECT_EQ(expect(co_await client.post(server.url,
                                                   RequestBody::generated(words({"ab", "cd"}), 4)))
                           .body,
                       "4 (none) abcd");
             auto [near, far] = penstock::MemoryStream::pair();
             expect(co_await near.write_all("from a stream"));
             near.close();
             EXPECT_EQ(expect(co_await client.post(server.url, RequestBody::stream_of(far))).body,
                       "(none) chunked from a stream");
             RequestBody file =
                 expect(co_await RequestBody::file(folder.file("body", "from a file")));
             EXPECT_EQ(expect(co_await client.post(server.url, std::move(file))).body,
                       "11 (none) from a file");
             EXPECT_EQ(expect(co_await client.put(server.url, "")).body, "0 (none) ");
         });
}

TEST(HttpClient, AsksBeforeItSendsALargeBodyOnly) {
    with(answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
             (void)co_await connection.respond(200, request.field("expect"));
         }),
         [](const ScriptedServer& server) -> Task<> {
             Client client;
             EXPECT_EQ(expect(co_await client.post(server.url, "small")).body, "(none)");
             EXPECT_EQ(
                 expect(co_await client.post(server.url, "small", {{"Expect", "100-continue"}}))
                     .body,
                 "100-continue");
             EXPECT_EQ(expect(co_await client.post(server.url, std::string(2U << 20, 'x'))).body,
                       "100-continue");
             EXPECT_EQ(
                 expect(co_await client.post(server.url, RequestBody::generated(words({"ab"}))))
                     .body,
                 "100-continue");
         });
}

TEST(HttpClient, SendsALargeBodyWhileTheServerReadsIt) {
    static constexpr std::size_t size = std::size_t{5} << 20;
    with(answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
             (void)co_await connection.respond(
                 200, request.body == std::string(size, 'x') ? "same" : "other");
         }),
         [](const ScriptedServer& server) -> Task<> {
             Client client;
             EXPECT_EQ(expect(co_await client.post(server.url, std::string(size, 'x'))).body,
                       "same");
             std::vector<std::string> parts(5, std::string(1U << 20, 'x'));
             EXPECT_EQ(expect(co_await client.post(server.url,
                                                   RequestBody::generated(words(std::move(parts)))))
                           .body,
                       "same");
         });
}

TEST(HttpClient, RefusesABodyOfAnotherLength) {
    with(answering(describe), [](const ScriptedServer& server) -> Task<> {
        Client client;
        for (const std::uint64_t length : {3, 5}) {
            const auto response = co_await client.post(
                server.url, RequestBody::generated(words({"ab", "cd"}), length));
            EXPECT_EQ(response.error(), ClientError::wrong_length);
        }
        EXPECT_TRUE(co_await client.get(server.url));
    });
}

AsyncGenerator<Result<std::string>> failing_part() {
    co_yield std::string("begin");
    co_yield failure(std::errc::io_error);
}

TEST(HttpClient, ReturnsTheErrorOfABody) {
    with(answering(describe), [](const ScriptedServer& server) -> Task<> {
        Client client;
        const auto response =
            co_await client.post(server.url, RequestBody::generated(failing_part()));
        EXPECT_EQ(response.error(), std::errc::io_error);
    });
}

TEST(HttpClient, StreamsAResponseInABoundedBuffer) {
    static constexpr std::size_t size = std::size_t{8} << 20;
    std::size_t sent = 0;
    with(
        [&sent](ServedConnection& connection) -> Task<> {
            (void)co_await connection.request();
            (void)co_await connection.send(
                "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n");
            const std::string part(std::size_t{64} * 1024, 'x');
            while (sent < size && co_await connection.stream().write_all(part)) {
                sent += part.size();
            }
        },
        [&sent](const ScriptedServer& server) -> Task<> {
            Client client(ClientOptions{.buffer = std::size_t{64} * 1024});
            ClientResponse response = expect(co_await client.send({.url = server.url}));
            EXPECT_EQ(response.status(), Status::ok);
            // The server stops when the buffers of client and kernel are full.
            std::size_t before = 0;
            do {
                before = sent;
                expect(co_await penstock::sleep_for(20ms));
            } while (sent != before);
            EXPECT_LT(sent, size);
            EXPECT_EQ(expect(co_await response.text()).size(), size);
        });
}

TEST(HttpClient, ReadsWhatWasCompressedToAThousandth) {
    static constexpr std::size_t size = 100'000'000;
    with(
        [](ServedConnection& connection) -> Task<> {
            (void)co_await connection.head();
            const auto zeros =
                expect(co_await penstock::process::Command("sh")
                           .argument("-c")
                           .argument("head -c " + std::to_string(size) + " /dev/zero | gzip")
                           .output());
            (void)co_await connection.respond(200, zeros.output, "Content-Encoding: gzip\r\n");
        },
        [](const ScriptedServer& server) -> Task<> {
            Client client;
            ClientResponse response = expect(co_await client.send({.url = server.url}));
            std::vector<std::byte> part(1U << 20);
            std::size_t total = 0;
            while (const std::size_t count = expect(co_await response.read(part))) {
                total += count;
            }
            EXPECT_EQ(total, size);
        });
}

TEST(HttpClient, DeliversTheHeadBeforeTheBody) {
    penstock::sync::Event read;
    with(
        [&read](ServedConnection& connection) -> Task<> {
            (void)co_await connection.request();
            (void)co_await connection.send("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            expect(co_await read.wait());
            (void)co_await connection.send("3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n");
        },
        [&read](const ScriptedServer& server) -> Task<> {
            Client client;
            ClientResponse response = expect(co_await client.send({.url = server.url}));
            EXPECT_FALSE(response.headers().contains("Link"));
            read.set();
            EXPECT_EQ(expect(co_await response.text()), "abc");
            EXPECT_EQ(response.trailers().find("X-Sum"), "7");
        });
}

TEST(HttpClient, ConversesWhileItSends) {
    // Each part of the body answers a part of the response.
    with(
        [](ServedConnection& connection) -> Task<> {
            (void)co_await connection.head();
            (void)co_await connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for (auto chunk = co_await connection.chunk(); chunk && !chunk->empty();
                 chunk = co_await connection.chunk()) {
                (void)co_await connection.send("2\r\n" + *chunk + "\r\n");
            }
            (void)co_await connection.send("0\r\n\r\n");
        },
        [](const ScriptedServer& server) -> Task<> {
            Client client;
            auto [near, far] = penstock::MemoryStream::pair();
            ClientResponse response =
                expect(co_await client.send({.url = server.url,
                                             .method = Method::post,
                                             .headers = {{"Expect", ""}},
                                             .body = RequestBody::stream_of(far)}));
            std::string text(2, ' ');
            for (const char* part : {"ab", "cd", "ef"}) {
                expect(co_await near.write_all(part));
                std::size_t count = 0;
                while (count < 2) {
                    count += expect(co_await response.read(
                        penstock::MutableBytes(text.data() + count, 2 - count)));
                }
                EXPECT_EQ(text, part);
            }
            near.close();
            EXPECT_EQ(expect(co_await response.text()), "");
        });
}

TEST(HttpClient, LimitsAWholeBody) {
    with(answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
             (void)co_await connection.respond(
                 200, std::string(std::stoul(request.target.substr(1)), 'x'));
         }),
         [](const ScriptedServer& server) -> Task<> {
             Client client(ClientOptions{.whole_body = 100'000});
             EXPECT_EQ(expect(co_await client.get(server.url + "/100000")).body.size(), 100'000U);
             const auto larger = co_await client.get(server.url + "/100001");
             EXPECT_EQ(larger.error(), ClientError::body_too_large);
             EXPECT_EQ(larger.error(), std::errc::message_size);
         });
}

TEST(HttpClient, EndsALayeredBombAtTheLimitOfAWholeBody) {
    // 100 MB of zeros in about 1 kB, which libcurl would decompress while the program reads
    // nothing.
    with(answering([](ServedConnection& connection, ReceivedRequest) -> Task<> {
             const auto bomb = expect(co_await penstock::process::Command("sh")
                                          .argument("-c")
                                          .argument("head -c 100000000 /dev/zero | gzip | gzip")
                                          .output());
             (void)co_await connection.respond(200, bomb.output,
                                               "Content-Encoding: gzip, gzip\r\n");
         }),
         [](const ScriptedServer& server) -> Task<> {
             Client client(ClientOptions{.whole_body = 1'000'000});
             EXPECT_EQ((co_await client.get(server.url)).error(), ClientError::body_too_large);
         });
}

TEST(HttpClient, RefusesASwitchOfProtocolsThatItHasNotAskedFor) {
    with(answering([](ServedConnection& connection, ReceivedRequest) -> Task<> {
             (void)co_await connection.send("HTTP/1.1 101 Switching Protocols\r\n"
                                            "Connection: Upgrade\r\nUpgrade: x\r\n\r\nforeign");
         }),
         [](const ScriptedServer& server) -> Task<> {
             Client client;
             EXPECT_EQ((co_await client.get(server.url)).error(), ClientError::invalid_response);
         });
}

TEST(HttpClient, TellsATruncatedBody) {
    with(
        [](ServedConnection& connection) -> Task<> {
            (void)co_await connection.request();
            (void)co_await connection.send(connection.number() == 0
                                               ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"
                                               : "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                                                 "chunked\r\n\r\n5\r\nabc");
        },
        [](const ScriptedServer& server) -> Task<> {
            Client client;
            for (int i = 0; i < 2; ++i) {
                ClientResponse response = expect(co_await client.send({.url = server.url}));
                std::string text(10, ' ');
                EXPECT_EQ(expect(co_await response.read(text)), 3U);
                EXPECT_EQ((co_await response.read(text)).error(), ClientError::truncated);
            }
        });
}

TEST(HttpClient, NamesUrlAndRemedyInErrors) {
    with(
        [](ServedConnection& connection) -> Task<> {
            (void)co_await connection.request();
            switch (connection.number()) {
            case 0: // nothing
                break;
            case 1:
                (void)co_await connection.send("SSH-2.0-OpenSSH_9.2\r\n");
                break;
            default:
                (void)co_await connection.send("HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n");
            }
        },
        [](const ScriptedServer& server) -> Task<> {
            Client client;
            const std::string url = server.url + "/p";
            std::string with_password = url;
            with_password.insert(7, "user:secret@");
            const auto nothing = co_await client.get(with_password);
            EXPECT_EQ(nothing.error(), ClientError::connection_lost);
            EXPECT_EQ(nothing.error(), std::errc::connection_reset);
            const std::string message = nothing.error().message();
            EXPECT_TRUE(message.starts_with("GET " + url + ": the connection ended")) << message;
            EXPECT_EQ((co_await client.get(url)).error(), ClientError::invalid_response);
            EXPECT_EQ((co_await client.get(url)).error(), ClientError::invalid_response);

            const auto refused = co_await client.get("http://127.0.0.1:1/");
            EXPECT_EQ(refused.error(), ClientError::connection_refused);
            EXPECT_EQ(refused.error(), std::errc::connection_refused);
            EXPECT_NE(refused.error(), ClientError::timed_out);
            EXPECT_NE(refused.error().message().find("check host and port"), std::string::npos);

            const auto unknown = co_await client.get("http://name.invalid/");
            EXPECT_EQ(unknown.error(), ClientError::name_not_resolved);

            for (const char* wrong : {"", "/path", "http://", "http://a b/", "http://u:p@h:x/"}) {
                const auto invalid = co_await client.get(wrong);
                EXPECT_EQ(invalid.error(), ClientError::invalid_url) << wrong;
                EXPECT_EQ(invalid.error().message().find("u:p"), std::string::npos);
            }
            EXPECT_EQ((co_await client.get("ftp://localhost/")).error(),
                      ClientError::unsupported_scheme);
            EXPECT_EQ((co_await client.get(url, {{"Content-Length", "3"}})).error(),
                      ClientError::invalid_request);
            EXPECT_EQ((co_await client.fetch({.url = url, .method = Method("A B")})).error(),
                      ClientError::invalid_request);
            EXPECT_EQ((co_await client.fetch(
                           {.url = url, .credentials = penstock::http::BearerToken{"a\r\nb"}}))
                          .error(),
                      ClientError::invalid_request);
            // An old code has no details any more.
            for (int i = 0; i < 300; ++i) {
                (void)co_await client.get("");
            }
            EXPECT_EQ(refused.error(), ClientError::connection_refused);
            EXPECT_TRUE(refused.error().message().starts_with("no server listens there"));
        });
}

TEST(HttpClient, RefusesOptionsWithoutMeaning) {
    EXPECT_THROW(Client(ClientOptions{.timeouts = {.whole = -1ms}}), std::invalid_argument);
    EXPECT_THROW(Client(ClientOptions{.buffer = 0}), std::invalid_argument);
    EXPECT_THROW(Client(ClientOptions{.user_agent = "a\r\nb"}), std::invalid_argument);
}

TEST(HttpClient, DownloadsFilesInTheExample) {
    with(answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
             const bool known = request.target != "/unknown";
             (void)co_await connection.respond(known ? 200 : 404, std::string(100'000, 'x'));
         }),
         [](const ScriptedServer& server) -> Task<> {
             const TemporaryFolder folder;
             const auto output = expect(
                 co_await penstock::process::Command(PENSTOCK_DOWNLOAD)
                     .arguments({folder.path(""), "2", server.url + "/a", server.url + "/unknown",
                                 server.url + "/b?c=d", "http://127.0.0.1:1/"})
                     .output());
             EXPECT_EQ(output.status, penstock::process::ExitStatus::exited(0));
             EXPECT_NE(output.output.find("a: 100000 bytes\n"), std::string::npos) << output.output;
             EXPECT_NE(output.output.find("/unknown: 404\n"), std::string::npos);
             EXPECT_NE(output.output.find("no server listens there"), std::string::npos);
             EXPECT_EQ(folder.content("a").size(), 100'000U);
             EXPECT_EQ(folder.content("b").size(), 100'000U);
             EXPECT_TRUE(folder.content("unknown").empty());
         });
}

TEST(HttpClient, KeepsCookiesIfAsked) {
    with(answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
             (void)co_await connection.respond(200, request.field("cookie"),
                                               "Set-Cookie: a=1; Path=/\r\n");
         }),
         [](const ScriptedServer& server) -> Task<> {
             Client without;
             Client with_cookies(ClientOptions{.cookies = true});
             for (const char* expected : {"(none)", "a=1"}) {
                 EXPECT_EQ(expect(co_await without.get(server.url)).body, "(none)");
                 EXPECT_EQ(expect(co_await with_cookies.get(server.url)).body, expected);
             }
         });
}

TEST(HttpClient, ShowsCredentials) {
    with(
        answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
            (void)co_await connection.respond(200, request.field("authorization"));
        }),
        [](const ScriptedServer& server) -> Task<> {
            using penstock::http::BasicCredentials;
            using penstock::http::BearerToken;
            Client client;
            const std::string basic = "Basic dXNlcjpwYXNz"; // "user:pass"
            EXPECT_EQ(
                expect(co_await client.fetch(
                           {.url = server.url, .credentials = BasicCredentials{"user", "pass"}}))
                    .body,
                basic);
            std::string url = server.url;
            url.insert(7, "user:pass@");
            EXPECT_EQ(expect(co_await client.get(url)).body, basic);
            EXPECT_EQ(
                expect(co_await client.fetch({.url = url, .credentials = BearerToken{"t0k"}})).body,
                "Bearer t0k");
        });
}

} // namespace
