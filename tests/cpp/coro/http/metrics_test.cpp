#include <penstock/http/metrics.hpp>

#include <penstock/http/server.hpp>
#include <penstock/http/upgrade.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/unwrap.hpp>

#include <chrono>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using http::Metrics;
using http::OpenConnection;
using http::Request;
using http::Response;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::with_server;

std::string get(std::string_view path) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n";
}

/// The value of a sample. Empty if there is none.
std::string sample(const std::string& page, const std::string& name) {
    const std::size_t at = ("\n" + page).find("\n" + name + " ");
    if (at == std::string::npos) {
        return {};
    }
    const std::size_t begin = at + name.size() + 1;
    return page.substr(begin, page.find('\n', begin) - begin);
}

/// The rules that Prometheus has for a page: text and type of a family stand before its samples,
/// and no sample comes twice.
void expect_well_formed(const std::string& page) {
    ASSERT_TRUE(page.ends_with('\n'));
    ASSERT_EQ(page.find('\r'), std::string::npos);
    std::istringstream lines(page);
    std::set<std::string> samples;
    std::set<std::string> families;
    std::string family;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# HELP ")) {
            family = line.substr(7, line.find(' ', 7) - 7);
            EXPECT_TRUE(families.insert(family).second) << line;
            ASSERT_TRUE(std::getline(lines, line) && line.starts_with("# TYPE " + family + " "));
            continue;
        }
        EXPECT_TRUE(line.starts_with(family)) << line;
        EXPECT_TRUE(samples.insert(line.substr(0, line.rfind(' '))).second) << line;
        EXPECT_NO_THROW((void)std::stod(line.substr(line.rfind(' ') + 1))) << line;
    }
}

TEST(HttpMetrics, APageOfNothingIsWellFormed) {
    const Metrics metrics;
    expect_well_formed(metrics.text());
    EXPECT_EQ(sample(metrics.text(), "penstock_connections"), "0");
}

TEST(HttpMetrics, DurationsFallIntoTheirBuckets) {
    Metrics metrics;
    Metrics::Route& route = metrics.route("GET", "/");
    route.count(200, 1ms);
    route.count(200, 1'000'001ns);
    route.count(503, 11s);
    const std::string page = metrics.text();
    expect_well_formed(page);
    const std::string labels = "{method=\"GET\",route=\"/\"";
    const std::string bucket = "penstock_request_duration_seconds_bucket" + labels + ",le=";
    EXPECT_EQ(sample(page, bucket + "\"0.001\"}"), "1");
    EXPECT_EQ(sample(page, bucket + "\"0.0025\"}"), "2");
    EXPECT_EQ(sample(page, bucket + "\"10.0\"}"), "2");
    EXPECT_EQ(sample(page, bucket + "\"+Inf\"}"), "3");
    EXPECT_EQ(sample(page, "penstock_request_duration_seconds_count" + labels + "}"), "3");
    EXPECT_EQ(sample(page, "penstock_request_duration_seconds_sum" + labels + "}"), "11.002000001");
    EXPECT_EQ(sample(page, "penstock_requests_total" + labels + ",status=\"200\"}"), "2");
    EXPECT_EQ(sample(page, "penstock_requests_total" + labels + ",status=\"503\"}"), "1");
}

TEST(HttpMetrics, LabelsAreEscaped) {
    Metrics metrics;
    metrics.route("GET", "/a\"b\\c\nd").count(200, 1ms);
    const std::string page = metrics.text();
    expect_well_formed(page);
    EXPECT_NE(page.find("route=\"/a\\\"b\\\\c\\nd\""), std::string::npos) << page;
}

TEST(HttpMetrics, RequestsAreCountedByTheirRoutes) {
    const auto metrics = std::make_shared<Metrics>();
    http::ServerOptions options;
    options.metrics = metrics;
    options.on_failure = [](const http::ServerFailure&) {};
    http::Server server(std::move(options));
    server.get("/users/{id}", [](Request&, Response& response) { response.body("x"); });
    server.post("/fail", [](Request&, Response&) -> Task<Result<>> {
        throw std::runtime_error("a fault");
        co_return Result<>();
    });
    server.get("/metrics", http::metrics_page(metrics));
    std::string page;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        (void)co_await exchange(endpoint,
                                get("/users/1") + get("/users/2") + get("/unknown") +
                                    "POST /fail HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        (void)co_await exchange(endpoint, "no request\r\n\r\n");
        page = co_await exchange(endpoint, get("/metrics"));
    });
    page.erase(0, page.find("\r\n\r\n") + 4);
    expect_well_formed(page);
    const auto total = [&](const std::string& labels) {
        return sample(page, "penstock_requests_total{" + labels + "}");
    };
    EXPECT_EQ(total("method=\"GET\",route=\"/users/{id}\",status=\"200\""), "2");
    EXPECT_EQ(total("method=\"POST\",route=\"/fail\",status=\"500\""), "1");
    EXPECT_EQ(total("method=\"\",route=\"\",status=\"404\""), "1");
    EXPECT_EQ(total("method=\"\",route=\"\",status=\"400\""), "1");
    EXPECT_EQ(sample(page, "penstock_requests_in_progress"), "1"); // this one
    EXPECT_EQ(sample(page, "penstock_connections"), "1");
    EXPECT_EQ(sample(metrics->text(), "penstock_requests_in_progress"), "0");
    EXPECT_EQ(sample(metrics->text(), "penstock_connections"), "0");
}

TEST(HttpMetrics, ARequestWhoseClientGoesIsInProgressNoMore) {
    const auto metrics = std::make_shared<Metrics>();
    http::ServerOptions options;
    options.metrics = metrics;
    http::Server server(std::move(options));
    sync::Event begun;
    server.get("/", [&](Request&, Response& response) -> Task<Result<>> {
        begun.set();
        for (;;) {
            co_await unwrap(response.write_all(std::string(100'000, 'x')));
        }
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(get("/")));
        expect(co_await begun.wait());
        EXPECT_EQ(sample(metrics->text(), "penstock_requests_in_progress"), "1");
    });
    EXPECT_EQ(sample(metrics->text(), "penstock_requests_in_progress"), "0");
    EXPECT_EQ(metrics->text().find("route=\"/\",status"), std::string::npos);
}

TEST(HttpMetrics, ThreadsMayShareThem) {
    Metrics metrics;
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&metrics] {
            for (int round = 0; round < 1000; ++round) {
                metrics.route("GET", "/").count(200, 1us);
                metrics.connection_opened();
            }
        });
    }
    (void)metrics.text();
    for (std::thread& thread : threads) { // no jthread: libc++ 19 has none
        thread.join();
    }
    EXPECT_EQ(sample(metrics.text(),
                     "penstock_requests_total{method=\"GET\",route=\"/\",status=\"200\"}"),
              "3000");
    EXPECT_EQ(sample(metrics.text(), "penstock_connections"), "3000");
}

TEST(HttpOpenConnections, TellWhoTheyAreAndWhatTheyDo) {
    http::Server server;
    sync::Event waiting;
    sync::Event go_on;
    server.get("/", [](Request&, Response& response) { response.body("x"); });
    server.get("/wait", [&](Request&, Response&) -> Task<Result<>> {
        waiting.set();
        co_await unwrap(go_on.wait());
        co_return Result<>();
    });
    sync::Event taken;
    server.upgrade("/other", "other", [&](http::Upgrade& upgrade) -> Task<Result<>> {
        http::Upgrade::Taken own = upgrade.take();
        taken.set();
        co_await unwrap(go_on.wait());
        co_return Result<>();
    });
    const auto before = std::chrono::system_clock::now();
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        EXPECT_TRUE(server.open_connections().empty());
        net::TcpStream idle = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await idle.write_all(get("/") + get("/")));
        (void)co_await read_until(idle, "\r\n\r\nx");
        (void)co_await read_until(idle, "\r\n\r\nx");
        net::TcpStream busy = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await busy.write_all(get("/wait")));
        expect(co_await waiting.wait());
        net::TcpStream other = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await other.write_all(
            "GET /other HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n"));
        expect(co_await taken.wait());
        const std::vector<OpenConnection> open = server.open_connections();
        EXPECT_EQ(open.size(), 3U);
        if (open.size() == 3) {
            EXPECT_EQ(open[0].state, OpenConnection::State::idle);
            EXPECT_EQ(open[0].requests, 2U);
            EXPECT_EQ(expect(Result(open[0].peer)), expect(idle.local_endpoint()));
            EXPECT_GE(open[0].since, before);
            EXPECT_LE(open[0].since, std::chrono::system_clock::now());
            EXPECT_EQ(open[1].state, OpenConnection::State::handling);
            EXPECT_EQ(open[1].request, "GET /wait");
            EXPECT_EQ(expect(Result(open[1].peer)), expect(busy.local_endpoint()));
            EXPECT_EQ(open[2].state, OpenConnection::State::upgraded);
            EXPECT_EQ(open[2].request, "GET /other");
            EXPECT_EQ(expect(Result(open[2].peer)), expect(other.local_endpoint()));
        }
        go_on.set();
    });
    EXPECT_TRUE(server.open_connections().empty());
}

} // namespace
