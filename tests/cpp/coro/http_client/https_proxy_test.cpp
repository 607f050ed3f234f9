// http::Client through proxies that are reached by https: Apache, which also serves the pages.

#include <penstock/http/client.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "coro/tls/certificates.hpp"
#include "support/required_program.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::all_settled;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::ClientOptions;
using penstock::http::FetchedResponse;
using penstock::http::Status;
using penstock::http::Version;
using penstock::net::Endpoint;
using penstock::net::TcpStream;
using penstock::process::Child;
using penstock::process::Command;
using penstock::testing::answering;
using penstock::testing::Authority;
using penstock::testing::expect;
using penstock::testing::ReceivedRequest;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

/// Apache, as one process: a site of https, and proxies that are reached by https.
class Apache {
public:
    static constexpr const char* program = "/usr/sbin/apache2";

    [[nodiscard]] static bool is_installed() { return std::filesystem::exists(program); }

    Authority authority;
    const std::string text = std::string(300'000, 't');
    std::string site;       ///< URL of the pages, "https://localhost:port"
    std::string proxy;      ///< URL of a proxy for everybody, to the site and to servers of http
    std::string guarded;    ///< of one that wants a user name and a password
    std::string other_name; ///< of one whose certificate names another host
    std::string expired;    ///< of one whose certificate is too old

    /// Returns when it listens.
    Task<> start() {
        // As root, Apache serves as another user, who has to reach the files.
        using std::filesystem::perms;
        std::filesystem::permissions(folder_.path(""), perms::others_read | perms::others_exec,
                                     std::filesystem::perm_options::add);
        folder_.fill("text.txt", text);
        folder_.fill("passwords", "user:{SHA}nU4eI71bcnBGqeO0t9tXvY1u5oQ=\n"); // "pass"
        for (int attempt = 0; attempt < 10; ++attempt) { // another process may take a port
            const std::uint16_t last = write_configuration();
            child_ = expect(Command(program)
                                .arguments({"-X", "-f", folder_.path("apache.conf")})
                                .kill_on_close()
                                .spawn());
            while (!expect(child_.try_wait())) {
                if (co_await TcpStream::connect(Endpoint::loopback(last))) {
                    co_return;
                }
                expect(co_await penstock::sleep_for(5ms));
            }
        }
        throw std::runtime_error("Apache does not start: " + folder_.content("errors"));
    }

    [[nodiscard]] ClientOptions through(const std::string& url) const {
        return {.tls = {.authorities_file = authority.file()}, .proxy = {.url = url}};
    }

private:
    /// A virtual host with TLS on a free port, which this returns.
    std::uint16_t add_host(const penstock::tls::Identity& identity, std::string_view directives) {
        auto listener = penstock::testing::listen_on_loopback();
        const std::uint16_t port = expect(listener.local_endpoint()).port();
        configuration_.append("Listen 127.0.0.1:" + std::to_string(port) + "\n<VirtualHost *:" +
                              std::to_string(port) + ">\nSSLEngine on\nSSLCertificateFile " +
                              identity.certificate_chain_file + "\nSSLCertificateKeyFile " +
                              identity.private_key_file + "\n");
        configuration_.append(directives).append("</VirtualHost>\n");
        listeners_.push_back(std::move(listener)); // so that the next port is another one
        return port;
    }

    std::uint16_t write_configuration() {
        configuration_ = "ServerName localhost\nServerRoot " + folder_.path("") +
                         "\nDefaultRuntimeDir " + folder_.path("") + "\nPidFile " +
                         folder_.path("pid") + "\nErrorLog " + folder_.path("errors") +
                         "\nUser nobody\nGroup nogroup\n";
        for (const std::string_view name :
             {"mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic",
              "headers", "http2", "ssl", "proxy", "proxy_connect", "proxy_http"}) {
            configuration_.append("LoadModule ").append(name).append("_module ");
            configuration_.append("/usr/lib/apache2/modules/mod_").append(name).append(".so\n");
        }
        const auto own_name = authority.sign("DNS:localhost");
        const auto url_of = [](std::uint16_t port) {
            return "https://localhost:" + std::to_string(port);
        };
        const std::uint16_t site_port =
            add_host(own_name, "Protocols h2 http/1.1\nHeader echo Proxy-Authorization\n"
                               "DocumentRoot " +
                                   folder_.path("") + "\n");
        site = url_of(site_port);
        // Of tunnels, only those to the site.
        const std::string directives =
            "ProxyRequests On\nProxyVia On\nAllowCONNECT " + std::to_string(site_port) + "\n";
        proxy = url_of(add_host(own_name, directives));
        guarded = url_of(add_host(own_name, directives +
                                                "<Proxy \"*\">\nAuthType Basic\n"
                                                "AuthName proxy\nAuthUserFile " +
                                                folder_.path("passwords") +
                                                "\nRequire valid-user\n</Proxy>\n"));
        other_name = url_of(add_host(authority.sign("DNS:other.invalid"), directives));
        const std::uint16_t last = add_host(authority.sign("DNS:localhost", -1), directives);
        expired = url_of(last);
        folder_.fill("apache.conf", configuration_);
        listeners_.clear();
        return last;
    }

    TemporaryFolder folder_;
    std::string configuration_;
    std::vector<penstock::net::TcpListener> listeners_;
    Child child_;
};

class HttpClientHttpsProxy : public ::testing::Test {
protected:
    void SetUp() override { penstock::testing::require_program("Apache", Apache::is_installed()); }

    template <typename Body> static void with_apache(Body body) {
        const Watchdog watchdog;
        const auto program = [&body]() -> Task<> {
            Apache apache;
            co_await apache.start();
            co_await body(apache);
        };
        run(program());
    }
};

/// The URL with a user name and a password.
std::string with_credentials(std::string url, const char* credentials) {
    return url.insert(url.find("//") + 2, std::string(credentials) + "@");
}

TEST_F(HttpClientHttpsProxy, CarriesATunnel) {
    with_apache([](const Apache& apache) -> Task<> {
        Client client(apache.through(apache.proxy));
        std::vector<Task<Result<FetchedResponse>>> requests;
        requests.reserve(8);
        for (int i = 0; i < 8; ++i) {
            requests.push_back(client.get(apache.site + "/text.txt"));
        }
        for (auto& response : co_await all_settled(std::move(requests))) {
            EXPECT_EQ(expect(response).status, Status::ok);
            EXPECT_EQ(expect(response).version, Version::http_2); // of the site, in the tunnel
            EXPECT_TRUE(expect(response).body == apache.text);
        }
    });
}

TEST_F(HttpClientHttpsProxy, RefusesOtherTunnels) {
    with_apache([](const Apache& apache) -> Task<> {
        Client client(apache.through(apache.proxy));
        // The server is there, but the proxy does not connect to it.
        EXPECT_EQ((co_await client.get(apache.guarded)).error(), ClientError::proxy_failed);
        EXPECT_TRUE(co_await client.get(apache.site + "/text.txt"));
    });
}

TEST_F(HttpClientHttpsProxy, PassesRequestsOfHttp) {
    with_apache([](const Apache& apache) -> Task<> {
        const auto answer = [](ServedConnection& connection, ReceivedRequest request) -> Task<> {
            (void)co_await connection.respond(200, request.method + " " + request.target + " " +
                                                       request.field("via") + " " + request.body);
        };
        co_await with_server(answering(answer), [&](const ScriptedServer& server) -> Task<> {
            Client client(apache.through(apache.proxy));
            EXPECT_TRUE(expect(co_await client.get(server.url + "/a"))
                            .body.starts_with("GET /a 1.1 localhost"));
            const FetchedResponse posted = expect(co_await client.post(server.url + "/b", "body"));
            EXPECT_TRUE(posted.body.starts_with("POST /b 1.1 localhost")) << posted.body;
            EXPECT_TRUE(posted.body.ends_with("body")) << posted.body;
        });
    });
}

TEST_F(HttpClientHttpsProxy, IsRefusedWithAWrongCertificate) {
    with_apache([](const Apache& apache) -> Task<> {
        for (const std::string& url : {apache.other_name, apache.expired}) {
            Client client(apache.through(url));
            const auto refused = co_await client.get(apache.site + "/text.txt");
            EXPECT_EQ(refused.error(), ClientError::certificate_refused);
            ClientOptions unverified = apache.through(url);
            unverified.tls.verify = false;
            Client trusting(unverified);
            EXPECT_TRUE(co_await trusting.get(apache.site + "/text.txt"));
        }
        Client stranger(ClientOptions{.proxy = {.url = apache.proxy}}); // without the authority
        EXPECT_EQ((co_await stranger.get(apache.site + "/text.txt")).error(),
                  ClientError::certificate_refused);
        EXPECT_EQ((co_await stranger.get("http://name.invalid/")).error(),
                  ClientError::certificate_refused);
    });
}

TEST_F(HttpClientHttpsProxy, TakesCredentials) {
    with_apache([](const Apache& apache) -> Task<> {
        const std::string page = apache.site + "/text.txt";
        Client right(apache.through(with_credentials(apache.guarded, "user:pass")));
        for (int i = 0; i < 2; ++i) {
            const FetchedResponse response = expect(co_await right.get(page));
            EXPECT_TRUE(response.body == apache.text);
            // They are the proxy's, not the site's, which echoes the field.
            EXPECT_FALSE(response.headers.contains("Proxy-Authorization"));
        }
        for (const char* credentials : {"user:wrong", "nobody:pass"}) {
            Client wrong(apache.through(with_credentials(apache.guarded, credentials)));
            EXPECT_EQ((co_await wrong.get(page)).error(), ClientError::proxy_failed);
        }
        Client none(apache.through(apache.guarded));
        EXPECT_EQ((co_await none.get(page)).error(), ClientError::proxy_failed);
        // Without a tunnel, the proxy's answer is the response.
        EXPECT_EQ(expect(co_await none.get("http://name.invalid/")).status,
                  Status::proxy_authentication_required);
    });
}

TEST_F(HttpClientHttpsProxy, IsNoProxyOfHttp) {
    with_apache([](const Apache& apache) -> Task<> {
        const auto silent = [](ServedConnection& connection) -> Task<> {
            (void)co_await connection.send("HTTP/1.1 400 no\r\n\r\n");
        };
        co_await with_server(silent, [&](const ScriptedServer& plain) -> Task<> {
            Client client(apache.through("https" + plain.url.substr(4)));
            EXPECT_EQ((co_await client.get(apache.site)).error(), ClientError::tls_failed);
        });
    });
}

} // namespace
