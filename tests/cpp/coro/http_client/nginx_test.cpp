// http::Client against nginx: HTTP/2, TLS, client certificates, compression, uploads.

#include <penstock/http/client.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <curl/curl.h>
#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "coro/tls/certificates.hpp"
#include "support/required_program.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::all_settled;
using penstock::AsyncGenerator;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::ClientOptions;
using penstock::http::ClientProtocol;
using penstock::http::ClientResponse;
using penstock::http::FetchedResponse;
using penstock::http::RequestBody;
using penstock::http::Status;
using penstock::http::Version;
using penstock::net::Endpoint;
using penstock::net::TcpStream;
using penstock::process::Child;
using penstock::process::Command;
using penstock::process::Stdio;
using penstock::testing::Authority;
using penstock::testing::expect;
using penstock::testing::ReceivedRequest;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

std::uint16_t free_port() {
    auto listener = penstock::testing::listen_on_loopback();
    return expect(listener.local_endpoint()).port();
}

std::string random_text(std::size_t size) {
    std::mt19937 random(7);
    std::string text(size, ' ');
    for (char& c : text) {
        c = static_cast<char>(random());
    }
    return text;
}

/// A running nginx, with a folder of files and a certificate for "localhost".
class Nginx {
public:
    Nginx() {
        folder.fill("text.txt", text);
        folder.fill("large.bin", large);
    }

    Authority authority;
    TemporaryFolder folder;
    const std::string text = std::string(20'000, 't');
    const std::string large = random_text(std::size_t{3} << 20);
    std::string http2;  ///< URL of a server with HTTP/2 and TLS
    std::string secret; ///< URL of one that asks for a client's certificate
    std::string plain;  ///< URL of one without TLS
    std::string h2c;    ///< URL of one with HTTP/2 and without TLS
    std::uint16_t http2_port = 0;

    /// Returns when it listens.
    Task<> start() {
        for (int attempt = 0; attempt < 10; ++attempt) { // another process may take the port
            const std::uint16_t secret_port = free_port();
            const std::uint16_t plain_port = free_port();
            const std::uint16_t h2c_port = free_port();
            http2_port = free_port();
            write_configuration(secret_port, plain_port, h2c_port);
            child_ = expect(Command("nginx")
                                .arguments({"-p", folder.path(""), "-c", folder.path("nginx.conf"),
                                            "-e", folder.path("errors")})
                                .kill_on_close()
                                .spawn());
            http2 = "https://localhost:" + std::to_string(http2_port);
            secret = "https://localhost:" + std::to_string(secret_port);
            plain = "http://localhost:" + std::to_string(plain_port);
            h2c = "http://localhost:" + std::to_string(h2c_port);
            while (!expect(child_.try_wait())) {
                if (co_await TcpStream::connect(Endpoint::loopback(plain_port))) {
                    co_return;
                }
                expect(co_await penstock::sleep_for(5ms));
            }
        }
        throw std::runtime_error("nginx does not start: " + folder.content("errors"));
    }

    [[nodiscard]] ClientOptions options() const {
        return {.tls = {.authorities_file = authority.file()}};
    }

    [[nodiscard]] ClientOptions small_buffer() const {
        return {.tls = {.authorities_file = authority.file()}, .buffer = std::size_t{16} * 1024};
    }

private:
    void write_configuration(std::uint16_t secret_port, std::uint16_t plain_port,
                             std::uint16_t h2c_port) {
        const auto identity = authority.sign("DNS:localhost");
        const std::string root = folder.path("");
        std::string paths;
        for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
            paths += std::string(kind) + "_temp_path " + root + "/" + kind + ";\n";
        }
        const std::string certificate = "ssl_certificate " + identity.certificate_chain_file +
                                        "; ssl_certificate_key " + identity.private_key_file +
                                        ";\n";
        const std::string content = "root " + root +
                                    "; location /connection { return 200 $connection; }\n"
                                    "location /dav/ { dav_methods PUT DELETE; "
                                    "create_full_put_path on; client_max_body_size 100m; }\n";
        const auto listen = [](std::uint16_t port) {
            return "listen 127.0.0.1:" + std::to_string(port);
        };
        folder.fill("nginx.conf",
                    "daemon off; master_process off; pid " + root +
                        "/pid;\nevents { worker_connections 256; }\nhttp {\n" + paths +
                        "access_log off; types { text/plain txt; }\n"
                        "gzip on; gzip_min_length 10; gzip_types text/plain;\n" +
                        certificate + "server { " + listen(http2_port) + " ssl http2;\n" + content +
                        "}\nserver { " + listen(secret_port) + " ssl;\n" + content +
                        "ssl_verify_client on; ssl_client_certificate " + authority.file() +
                        ";\n}\nserver { " + listen(plain_port) + ";\n" + content + "}\nserver { " +
                        listen(h2c_port) + " http2;\n" + content + "}\n}\n");
    }

    Child child_;
};

class HttpClientNginx : public ::testing::Test {
protected:
    void SetUp() override {
        penstock::testing::require_program("nginx",
                                           std::system("command -v nginx >/dev/null") == 0);
    }

    template <typename Body> static void with_nginx(Body body) {
        const Watchdog watchdog;
        const auto program = [&body]() -> Task<> {
            Nginx nginx;
            co_await nginx.start();
            co_await body(nginx);
        };
        run(program());
    }
};

TEST_F(HttpClientNginx, SharesOneConnectionWithHttp2) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        Client client(nginx.options());
        std::set<std::string> connections;
        for (int round = 0; round < 2; ++round) {
            std::vector<Task<Result<FetchedResponse>>> requests;
            requests.reserve(20);
            for (int i = 0; i < 20; ++i) {
                requests.push_back(client.get(nginx.http2 + "/connection"));
            }
            for (auto& response : co_await all_settled(std::move(requests))) {
                EXPECT_EQ(expect(response).version, Version::http_2);
                connections.insert(expect(response).body);
            }
        }
        // Each request of an old libcurl has a connection of its own (docs/limits.md).
        const bool is_old = curl_version_info(CURLVERSION_NOW)->version_num < 0x080100;
        EXPECT_LE(connections.size(), is_old ? nginx.options().connections_per_host : 1U);

        ClientOptions old = nginx.options();
        old.protocol = ClientProtocol::http_1_1;
        Client old_client(old);
        EXPECT_EQ(expect(co_await old_client.get(nginx.http2 + "/connection")).version,
                  Version::http_1_1);
    });
}

TEST_F(HttpClientNginx, SpeaksHttp2Unasked) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        ClientOptions options = nginx.options();
        options.protocol = ClientProtocol::http_2_unasked;
        Client client(options);
        for (int i = 0; i < 3; ++i) {
            const FetchedResponse response = expect(co_await client.get(nginx.h2c + "/connection"));
            EXPECT_EQ(response.version, Version::http_2);
            EXPECT_EQ(response.status, Status::ok);
        }
        const FetchedResponse stored =
            expect(co_await client.put(nginx.h2c + "/dav/unasked", nginx.text));
        EXPECT_EQ(stored.status, Status::created);
    });
}

TEST_F(HttpClientNginx, DecompressesUnlessItIsTurnedOff) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        for (const std::string& url : {nginx.http2, nginx.plain}) {
            Client client(nginx.options());
            const FetchedResponse compressed = expect(co_await client.get(url + "/text.txt"));
            EXPECT_EQ(compressed.headers.find("Content-Encoding"), "gzip");
            EXPECT_EQ(compressed.body, nginx.text);
            const FetchedResponse own =
                expect(co_await client.get(url + "/text.txt", {{"Accept-Encoding", "gzip"}}));
            EXPECT_LT(own.body.size(), 1000U);
            const FetchedResponse part =
                expect(co_await client.get(url + "/text.txt", {{"Range", "bytes=5-9"}}));
            EXPECT_EQ(part.status, Status::partial_content);
            EXPECT_EQ(part.body, "ttttt");
            ClientOptions off = nginx.options();
            off.compression = false;
            Client plain(off);
            const FetchedResponse direct = expect(co_await plain.get(url + "/text.txt"));
            EXPECT_FALSE(direct.headers.contains("Content-Encoding"));
            EXPECT_EQ(direct.body, nginx.text);
        }
    });
}

TEST_F(HttpClientNginx, ReadsAStreamBesideOneThatWaits) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        Client client(nginx.small_buffer());
        const std::string url = nginx.http2 + "/large.bin";
        ClientResponse waits = expect(co_await client.send({.url = url}));
        std::string first(1, ' ');
        EXPECT_EQ(expect(co_await waits.read(first)), 1U);
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(expect(co_await client.get(url)).body, nginx.large);
        }
        EXPECT_EQ(first + expect(co_await waits.text()), nginx.large);
        EXPECT_EQ(waits.version(), Version::http_2);
    });
}

TEST_F(HttpClientNginx, ReadsAStreamSlowlyBesideOthers) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        const std::uintmax_t size = std::uintmax_t{96} << 20; // of zeros that use no disk
        nginx.folder.fill("huge.bin", "");
        std::filesystem::resize_file(nginx.folder.path("huge.bin"), size);
        ClientOptions options = nginx.small_buffer();
        options.compression = false;
        Client client(options);
        ClientResponse slow = expect(co_await client.send({.url = nginx.http2 + "/huge.bin"}));
        std::string part(std::size_t{1} << 20, ' ');
        std::uintmax_t received = 0;
        for (std::size_t count = 1; count != 0;) {
            if (received < size / 2) { // meanwhile the server sends as much as it may
                EXPECT_EQ(expect(co_await client.get(nginx.http2 + "/large.bin")).body,
                          nginx.large);
            }
            for (int i = 0; i < 100 && count != 0; ++i) {
                count = expect(co_await slow.read(part));
                received += count;
            }
        }
        EXPECT_EQ(received, size);
    });
}

TEST_F(HttpClientNginx, CancelsOneOfSeveralStreams) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        Client client(nginx.small_buffer());
        const std::string before = expect(co_await client.get(nginx.http2 + "/connection")).body;
        ClientResponse kept = expect(co_await client.send({.url = nginx.http2 + "/large.bin"}));
        for (int i = 0; i < 5; ++i) {
            const ClientResponse dropped =
                expect(co_await client.send({.url = nginx.http2 + "/large.bin"}));
            EXPECT_EQ(dropped.status(), Status::ok);
        }
        EXPECT_EQ(expect(co_await kept.text()), nginx.large);
        EXPECT_EQ(expect(co_await client.get(nginx.http2 + "/connection")).body, before);
    });
}

AsyncGenerator<std::string> parts_of(std::string text) {
    for (std::size_t at = 0; at < text.size(); at += 100'000) {
        (void)co_await penstock::yield();
        co_yield text.substr(at, 100'000);
    }
}

TEST_F(HttpClientNginx, Uploads) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        for (const std::string& url : {nginx.http2, nginx.plain}) {
            Client client(nginx.options());
            std::vector<RequestBody> bodies;
            bodies.push_back(nginx.large);
            bodies.push_back(RequestBody::generated(parts_of(nginx.large)));
            bodies.push_back(RequestBody::generated(parts_of(nginx.large), nginx.large.size()));
            bodies.push_back(expect(co_await RequestBody::file(nginx.folder.path("large.bin"))));
            for (RequestBody& body : bodies) {
                const FetchedResponse stored =
                    expect(co_await client.put(url + "/dav/stored", std::move(body)));
                EXPECT_EQ(stored.status, Status::created) << stored.body;
                EXPECT_TRUE(nginx.folder.content("dav/stored") == nginx.large);
                EXPECT_EQ(expect(co_await client.delete_(url + "/dav/stored")).status,
                          Status::no_content);
            }
        }
    });
}

TEST_F(HttpClientNginx, VerifiesTheServer) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        Client strangers;
        const auto unknown = co_await strangers.get(nginx.http2 + "/text.txt");
        EXPECT_EQ(unknown.error(), ClientError::certificate_refused);
        EXPECT_NE(unknown.error().message().find("authorities_file"), std::string::npos);
        Client client(nginx.options());
        const auto other_name = co_await client.get(
            "https://127.0.0.1:" + std::to_string(nginx.http2_port) + "/text.txt");
        EXPECT_EQ(other_name.error(), ClientError::certificate_refused);
        Client trusting(ClientOptions{.tls = {.verify = false}});
        EXPECT_TRUE(co_await trusting.get(nginx.http2 + "/text.txt"));
        Client mistaken(ClientOptions{.tls = {.authorities_file = nginx.folder.path("none")}});
        EXPECT_EQ((co_await mistaken.get(nginx.http2 + "/")).error(),
                  ClientError::unusable_certificate);
        EXPECT_EQ((co_await client.get("https://" + nginx.plain.substr(7) + "/")).error(),
                  ClientError::tls_failed);
    });
}

TEST_F(HttpClientNginx, ShowsACertificate) {
    with_nginx([](Nginx& nginx) -> Task<> {
        Client without(nginx.options());
        EXPECT_EQ(expect(co_await without.get(nginx.secret + "/text.txt")).status,
                  Status::bad_request);
        const auto identity = nginx.authority.sign("DNS:client");
        ClientOptions options = nginx.options();
        options.tls.certificate_chain_file = identity.certificate_chain_file;
        options.tls.private_key_file = identity.private_key_file;
        Client with(options);
        EXPECT_EQ(expect(co_await with.get(nginx.secret + "/text.txt")).body, nginx.text);
    });
}

template <typename From, typename To> Task<> forward(From& from, To& to) {
    (void)co_await penstock::copy(from, to);
    (void)to.shutdown();
}

Task<> serve_tunnel(ServedConnection& connection) {
    const auto request = co_await connection.head();
    if (!request) {
        co_return;
    }
    EXPECT_EQ(request->method, "CONNECT");
    const std::size_t colon = request->target.find(':');
    const auto port = static_cast<std::uint16_t>(std::stoi(request->target.substr(colon + 1)));
    TcpStream server = expect(co_await TcpStream::connect(Endpoint::loopback(port)));
    (void)co_await connection.send("HTTP/1.1 200 Connected\r\nX-Proxy: 1\r\n\r\n");
    co_await all_settled(forward(connection.reader(), server),
                         forward(server, connection.stream()));
}

TEST_F(HttpClientNginx, GoesThroughATunnel) {
    with_nginx([](const Nginx& nginx) -> Task<> {
        co_await with_server(&serve_tunnel, [&](const ScriptedServer& proxy) -> Task<> {
            ClientOptions options = nginx.options();
            options.proxy.url = proxy.url;
            Client client(options);
            const FetchedResponse response = expect(co_await client.get(nginx.http2 + "/text.txt"));
            EXPECT_EQ(response.body, nginx.text);
            EXPECT_EQ(response.version, Version::http_2);
            EXPECT_FALSE(response.headers.contains("X-Proxy"));
            EXPECT_EQ(proxy.connections, 1U);
        });
    });
}

} // namespace
