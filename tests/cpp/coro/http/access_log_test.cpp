// The access log of a server, and pages of its own.

#include <penstock/http/access_log.hpp>

#include <penstock/fs/file.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/sleep.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "coro/http/running_server.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace penstock;
using http::AccessLog;
using http::AccessLogOptions;
using http::Request;
using http::Response;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::TemporaryFolder;
using penstock::testing::with_server;

using Format = AccessLogOptions::Format;

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

/// What a server logs of these requests, each on a connection of its own.
std::vector<std::string> logged(Format format, const std::vector<std::string>& requests) {
    const TemporaryFolder folder;
    const std::string path = folder.path("access.log");
    const auto log = expect(AccessLog::open(path, {.format = format}));
    http::ServerOptions options;
    options.access_log = log;
    options.on_failure = [](const http::ServerFailure&) {};
    http::Server server(std::move(options));
    server.get("/hello", [](Request& /*request*/, Response& response) { response.body("hello"); });
    server.get("/parts", [](Request& /*request*/, Response& response) -> Task<Result<>> {
        for (const std::string_view part : {"one", "two!"}) {
            if (const Result<> sent = co_await response.write_all(part); !sent) {
                co_return sent;
            }
        }
        co_return Result<>();
    });
    server.get("/file", [&](Request& /*request*/, Response& response) -> Task<Result<>> {
        fs::File file =
            expect(co_await fs::File::open(folder.file("data", std::string(100'000, 'x'))));
        co_return co_await response.send_file(file, 0, 100'000);
    });
    server.get("/broken", [](Request& /*request*/, Response& /*response*/) {
        throw std::runtime_error("broken");
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        for (const std::string& request : requests) {
            (void)co_await exchange(endpoint, request);
        }
    });
    log->flush();
    EXPECT_EQ(log->dropped(), 0U);
    return lines_of(folder.content("access.log"));
}

std::string request(std::string_view line, std::string_view fields = "") {
    return std::string(line) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

/// A line without its time.
std::string without_time(const std::string& line) {
    return std::regex_replace(line, std::regex(R"(\[[^\]]*\])"), "[]");
}

TEST(AccessLog, EachRequestHasALine) {
    const std::vector<std::string> lines = logged(
        Format::combined, {request("GET /hello", "Referer: /from\r\nUser-Agent: a client\r\n"),
                           request("HEAD /hello") + request("GET /missing"), request("POST /hello"),
                           request("GET /parts"), request("GET /file"), request("GET /broken"),
                           "GET /hello HTTP/1.0\r\n\r\n", "no request\r\n\r\n"});
    const std::vector<std::string> expected{
        R"(127.0.0.1 - - [] "GET /hello HTTP/1.1" 200 5 "/from" "a client")",
        R"(127.0.0.1 - - [] "HEAD /hello HTTP/1.1" 200 0 "-" "-")",
        R"(127.0.0.1 - - [] "GET /missing HTTP/1.1" 404 14 "-" "-")",
        R"(127.0.0.1 - - [] "POST /hello HTTP/1.1" 405 23 "-" "-")",
        R"(127.0.0.1 - - [] "GET /parts HTTP/1.1" 200 7 "-" "-")",
        R"(127.0.0.1 - - [] "GET /file HTTP/1.1" 200 100000 "-" "-")",
        R"(127.0.0.1 - - [] "GET /broken HTTP/1.1" 500 26 "-" "-")",
        R"(127.0.0.1 - - [] "GET /hello HTTP/1.0" 200 5 "-" "-")",
        R"(127.0.0.1 - - [] "-" 400 16 "-" "-")",
    };
    ASSERT_EQ(lines.size(), expected.size());
    const std::regex time(R"(.*\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\].*)");
    for (std::size_t at = 0; at < lines.size(); ++at) {
        EXPECT_EQ(without_time(lines[at]), expected[at]);
        EXPECT_TRUE(std::regex_match(lines[at], time)) << lines[at];
    }
}

TEST(AccessLog, WhatStrangersChooseForgesNothing) {
    const std::string hostile = request("GET /a\"b\\c", "User-Agent: x\" 200 1\ty\x80\\\r\n");
    EXPECT_EQ(
        without_time(logged(Format::combined, {hostile}).at(0)),
        R"(127.0.0.1 - - [] "GET /a\x22b\x5cc HTTP/1.1" 404 14 "-" "x\x22 200 1\x09y\x80\x5c")");
    EXPECT_EQ(without_time(logged(Format::common, {hostile}).at(0)),
              R"(127.0.0.1 - - [] "GET /a\x22b\x5cc HTTP/1.1" 404 14)");
    const std::string json = logged(Format::json, {hostile}).at(0);
    const std::regex form(
        R"(\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","peer":"127\.0\.0\.1","method":"GET",)"
        R"("target":"/a\\u0022b\\u005cc","status":404,"bytes":14,"seconds":[0-9.e-]+,"referer":"",)"
        R"("user_agent":"x\\u0022 200 1\\u0009y\\u0080\\u005c"\})");
    EXPECT_TRUE(std::regex_match(json, form)) << json;
}

TEST(AccessLog, ARequestWhoseClientHasGoneIsLoggedToo) {
    const TemporaryFolder folder;
    const auto log = expect(AccessLog::open(folder.path("log")));
    http::ServerOptions options;
    options.access_log = log;
    http::Server server(std::move(options));
    server.get("/endless", [](Request& /*request*/, Response& response) -> Task<Result<>> {
        const std::string part(100'000, 'x');
        for (;;) {
            if (const Result<> sent = co_await response.write_all(part); !sent) {
                co_return sent;
            }
        }
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(request("GET /endless")));
        (void)co_await penstock::testing::read_until(stream, "xxx");
    });
    log->flush();
    const std::vector<std::string> lines = lines_of(folder.content("log"));
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].contains("\"GET /endless HTTP/1.1\" 200 ")) << lines[0];
}

TEST(AccessLog, ItIsOpenedAnewForLogrotate) {
    const TemporaryFolder folder;
    const std::string path = folder.path("log");
    const auto log = expect(AccessLog::open(path, {.format = Format::common}));
    const http::AccessRecord record{
        .peer = failure(std::errc::not_supported), .method = "GET", .target = "/1", .status = 200};
    log->add(record);
    std::filesystem::rename(path, path + ".1");
    EXPECT_TRUE(log->reopen());
    log->add(record);
    log->flush();
    for (const char* name : {"log", "log.1"}) {
        EXPECT_EQ(without_time(folder.content(name)), "- - - [] \"GET /1 HTTP/1.1\" 200 0\n");
    }
    EXPECT_EQ(AccessLog::open(folder.path("missing/log")).error(),
              std::errc::no_such_file_or_directory);
}

TEST(AccessLog, AFlushEndsThoughLinesComeWithoutEnd) {
    const TemporaryFolder folder;
    const auto log = expect(
        AccessLog::open(folder.path("log"), {.buffer = 4096, .interval = std::chrono::hours(1)}));
    const http::AccessRecord record{
        .peer = failure(std::errc::not_supported), .method = "GET", .target = "/", .status = 200};
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> added{0};
    std::thread adding([&] {
        while (!stop) {
            log->add(record);
            ++added;
        }
    });
    for (int each = 0; each < 10; ++each) {
        const std::uint64_t before = added;
        while (added == before) {
            std::this_thread::yield();
        }
        log->flush();
        EXPECT_TRUE(log->reopen());
    }
    stop = true;
    adding.join();
    log->flush();
    std::uint64_t lines = 0;
    for (const std::string& line : lines_of(folder.content("log"))) {
        lines += line.starts_with('#') ? 0 : 1;
    }
    EXPECT_EQ(lines + log->dropped(), added);
}

TEST(AccessLog, LinesThatFindNoRoomAreCounted) {
    const TemporaryFolder folder;
    const http::AccessRecord record{
        .peer = failure(std::errc::not_supported), .method = "GET", .target = "/", .status = 200};
    for (const auto& [format, notice] : {std::pair(Format::combined, "# 1 lines were dropped"),
                                         std::pair(Format::json, "{\"dropped\":1}")}) {
        const std::string name = format == Format::json ? "json" : "combined";
        const auto log = expect(AccessLog::open(
            folder.path(name), {.format = format, .buffer = 1, .interval = std::chrono::hours(1)}));
        std::uint64_t added = 0;
        while (log->dropped() == 0) { // the writer may take a line between two
            log->add(record);
            ++added;
        }
        log->flush();
        log->add(record); // with the notice of the dropped one before it or behind it
        log->flush();
        const std::vector<std::string> lines = lines_of(folder.content(name));
        EXPECT_EQ(log->dropped(), 1U);
        EXPECT_EQ(lines.size(), added - 1 + 1 + 1);
        EXPECT_TRUE(std::ranges::find(lines, notice) != lines.end()) << notice;
    }
}

TEST(AccessLog, LinesThatCannotBeWrittenAreCountedOnce) {
    const http::AccessRecord record{
        .peer = failure(std::errc::not_supported), .method = "GET", .target = "/", .status = 200};
    const auto log =
        expect(AccessLog::open("/dev/full", {.interval = std::chrono::hours(1)})); // ENOSPC
    for (std::uint64_t added = 1; added <= 3; ++added) {
        log->add(record);
        log->flush();
        EXPECT_EQ(log->dropped(), added);
    }
}

TEST(AccessLog, ALineOfWhichAPartWasWrittenIsDroppedAndTheNextOneBeginsAnew) {
    const TemporaryFolder folder;
    const http::AccessRecord record{
        .peer = failure(std::errc::not_supported), .method = "GET", .target = "/", .status = 200};
    const auto log = expect(AccessLog::open(
        folder.path("log"), {.format = Format::common, .interval = std::chrono::hours(1)}));
    log->add(record);
    log->flush();
    const std::size_t size = folder.content("log").size();
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the system's macro
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 2 * size + size / 2, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0); // for two lines and a half
    for (int each = 0; each < 3; ++each) {
        log->add(record);
    }
    log->flush();
    EXPECT_EQ(log->dropped(), 2U);
    log->add(record);
    log->flush(); // no room for the end of that line either
    EXPECT_EQ(log->dropped(), 3U);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    log->add(record);
    log->flush();
    EXPECT_EQ(log->dropped(), 3U);
    const std::vector<std::string> lines = lines_of(folder.content("log"));
    const std::string whole = "- - - [] \"GET / HTTP/1.1\" 200 0";
    ASSERT_EQ(lines.size(), 5U);
    EXPECT_EQ(without_time(lines[0]), whole);
    EXPECT_EQ(without_time(lines[1]), whole);
    EXPECT_EQ(lines[2].size(), size / 2);
    EXPECT_EQ(without_time(lines[3]), whole);
    EXPECT_EQ(lines[4], "# 3 lines were dropped");
}

TEST(AccessLog, ALineKnowsWhoHasResetTheConnection) {
    const TemporaryFolder folder;
    const auto log = expect(AccessLog::open(folder.path("log")));
    http::ServerOptions options;
    options.access_log = log;
    http::Server server(std::move(options));
    sync::Event begun;
    sync::Event ended;
    server.get("/wait", [&](Request& request, Response& /*response*/) -> Task<Result<>> {
        request.on_close([&] { ended.set(); });
        begun.set();
        co_return co_await sleep_for(std::chrono::hours(1));
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await stream.write_all(request("GET /wait")));
            expect(co_await begun.wait());
            const struct linger reset{.l_onoff = 1, .l_linger = 0};
            EXPECT_EQ(
                ::setsockopt(stream.native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset),
                0);
        }
        expect(co_await ended.wait());
    });
    log->flush();
    const std::vector<std::string> lines = lines_of(folder.content("log"));
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].starts_with("127.0.0.1 ")) << lines[0];
    EXPECT_TRUE(lines[0].contains("\"GET /wait HTTP/1.1\" 499 0")) << lines[0];
}

TEST(ErrorPage, TheServersOwnAnswersHaveThePageOfTheProgram) {
    http::ServerOptions options;
    options.error_page = [](Response& response) {
        if (response.status() == http::Status::method_not_allowed) {
            throw std::runtime_error("no page");
        }
        response.header("Content-Type", "text/html");
        response.body("<p>" + std::to_string(static_cast<int>(response.status())));
        response.status(http::Status::ok); // stays what it is
    };
    int failures = 0;
    options.on_failure = [&failures](const http::ServerFailure&) { ++failures; };
    http::Server server(std::move(options));
    server.get("/own", [](Request& /*request*/, Response& response) {
        response.status(http::Status::not_found);
        response.body("the handler's");
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const std::string missing = co_await exchange(endpoint, request("GET /x"));
        EXPECT_TRUE(missing.starts_with("HTTP/1.1 404 ")) << missing;
        EXPECT_TRUE(missing.contains("Content-Type: text/html\r\n")) << missing;
        EXPECT_TRUE(missing.ends_with("\r\n\r\n<p>404")) << missing;
        EXPECT_TRUE((co_await exchange(endpoint, "bad\r\n\r\n")).ends_with("<p>400"));
        EXPECT_TRUE((co_await exchange(endpoint, request("GET /own"))).ends_with("handler's"));
        const std::string thrown = co_await exchange(endpoint, request("POST /own"));
        EXPECT_TRUE(thrown.starts_with("HTTP/1.1 405 ")) << thrown;
        EXPECT_TRUE(thrown.contains("Allow: ")) << thrown;
        EXPECT_TRUE(thrown.contains("Content-Type: text/plain; charset=utf-8\r\n")) << thrown;
        EXPECT_TRUE(thrown.ends_with("405 Method Not Allowed\n")) << thrown;
    });
    EXPECT_EQ(failures, 1);
}

} // namespace
