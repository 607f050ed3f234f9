#include <penstock/http/server.hpp>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"
#include "http/byte_range.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace penstock;
using http::ByteRange;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::status_line;
using penstock::testing::TemporaryFolder;
using penstock::testing::with_server;

/// A served folder, beside a file that must never be served.
struct Site {
    TemporaryFolder folder;
    http::Server server;

    Site() {
        namespace fs = std::filesystem;
        fs::create_directories(folder.path("root/sub"));
        folder.fill("secret.txt", "secret");
        folder.fill("root/a.txt", "0123456789");
        folder.fill("root/index.html", "<p>index</p>");
        folder.fill("root/sub/index.html", "<p>sub</p>");
        folder.fill("root/empty.css", "");
        folder.fill("root/.hidden", "hidden");
        folder.fill("root/with space.json", "{}");
        folder.fill("root/large.bin", std::string(300'000, 'x') + "end");
        fs::create_symlink("a.txt", folder.path("root/inside"));
        fs::create_symlink("../secret.txt", folder.path("root/outside"));
        fs::create_symlink(folder.path("root/a.txt"), folder.path("root/absolute"));
        fs::create_directory_symlink("..", folder.path("root/up"));
        expect(server.files("/s", folder.path("root"), {.cache_control = "max-age=60"}));
    }

    /// The responses to several requests.
    std::vector<std::string> ask(std::vector<std::string> requests) {
        std::vector<std::string> answers;
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            for (const std::string& request : requests) {
                answers.push_back(co_await exchange(endpoint, request));
            }
        });
        return answers;
    }
};

std::string get(std::string_view path, std::string_view fields = {}) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

std::string field(const std::string& response, std::string_view name) {
    const std::size_t at = response.find("\r\n" + std::string(name) + ": ");
    if (at == std::string::npos) {
        return "(none)";
    }
    const std::size_t begin = at + name.size() + 4;
    return response.substr(begin, response.find("\r\n", begin) - begin);
}

std::string body(const std::string& response) {
    return response.substr(response.find("\r\n\r\n") + 4);
}

TEST(HttpStaticFiles, ServeFilesWithTypeAndValidators) {
    Site site;
    const auto answers =
        site.ask({get("/s/a.txt"), get("/s/"), get("/s/sub/"), get("/s/empty.css"),
                  get("/s/with%20space.json"), get("/s/large.bin"), get("/s/sub?x=y"),
                  "HEAD /s/large.bin HTTP/1.1\r\nHost: a\r\n\r\n", get("/s/%61.txt")});
    EXPECT_EQ(body(answers[0]), "0123456789");
    EXPECT_EQ(field(answers[0], "Content-Type"), "text/plain; charset=utf-8");
    EXPECT_EQ(field(answers[0], "Content-Length"), "10");
    EXPECT_EQ(field(answers[0], "Accept-Ranges"), "bytes");
    EXPECT_EQ(field(answers[0], "Cache-Control"), "max-age=60");
    EXPECT_TRUE(field(answers[0], "ETag").starts_with('"'));
    EXPECT_TRUE(field(answers[0], "Last-Modified").ends_with(" GMT"));
    EXPECT_EQ(body(answers[1]), "<p>index</p>");
    EXPECT_EQ(field(answers[1], "Content-Type"), "text/html; charset=utf-8");
    EXPECT_EQ(body(answers[2]), "<p>sub</p>");
    EXPECT_EQ(body(answers[3]), "");
    EXPECT_EQ(field(answers[3], "Content-Length"), "0");
    EXPECT_EQ(field(answers[4], "Content-Type"), "application/json");
    EXPECT_EQ(body(answers[5]), std::string(300'000, 'x') + "end");
    EXPECT_EQ(field(answers[5], "Content-Type"), "application/octet-stream");
    EXPECT_EQ(status_line(answers[6]), "HTTP/1.1 301 Moved Permanently");
    EXPECT_EQ(field(answers[6], "Location"), "/s/sub/?x=y");
    EXPECT_EQ(field(answers[7], "Content-Length"), "300003");
    EXPECT_EQ(body(answers[7]), "");
    EXPECT_EQ(body(answers[8]), "0123456789");
}

TEST(HttpStaticFiles, ServeNothingOutsideOfTheFolder) {
    Site site;
    for (const std::string& answer :
         site.ask({get("/s/../secret.txt"), get("/s/%2e%2e/secret.txt"), get("/s/..%2fsecret.txt"),
                   get("/s/sub/../../secret.txt"), get("/s//secret.txt"), get("/s/outside"),
                   get("/s/absolute"), get("/s/up/secret.txt"), get("/s/.hidden"), get("/s/a.txt/"),
                   get("/s/a.txt/b"), get("/s/none"), get("/s/./a.txt"),
                   get("/s/" + std::string(300, 'x'))})) {
        EXPECT_EQ(status_line(answer), "HTTP/1.1 404 Not Found") << answer;
        EXPECT_EQ(answer.find("secret"), std::string::npos) << answer;
    }
    Site fresh;
    EXPECT_EQ(body(fresh.ask({get("/s/inside")}).front()), "0123456789");
}

/// A server of a folder whose files have siblings in some codings.
struct CodedSite {
    http::Server server;

    explicit CodedSite(const TemporaryFolder& folder) {
        expect(server.files("/s", folder.path(""), {.coded_siblings = true}));
    }

    std::string ask(std::string_view path, const std::string& accepted,
                    const std::string& more = "", const std::string& method = "GET") {
        std::string answer;
        const std::string request =
            method + " /s/" + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" +
            (accepted.empty() ? "" : "Accept-Encoding: " + accepted + "\r\n") + more + "\r\n";
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            answer = co_await exchange(endpoint, request);
        });
        return answer;
    }
};

TEST(HttpStaticFiles, ACodedSiblingIsSentToThoseWhoAcceptIt) {
    struct Case {
        const char* path;
        const char* accepted;
        const char* coding;
        const char* body;
    };
    constexpr std::array cases{
        Case{"a.css", "gzip, br", "br", "in brotli"},
        Case{"a.css", "gzip, br;q=0.5", "gzip", "in gzip"},
        Case{"a.css", "zstd, gzip;q=0.1", "gzip", "in gzip"}, // there is none in zstd
        Case{"a.css", "br;q=0, gzip;q=0", "(none)", "the original"},
        Case{"a.css", "identity, gzip;q=0.5", "(none)", "the original"},
        Case{"a.css", "", "(none)", "the original"},
        Case{"plain.css", "*", "(none)", "no sibling"}, // "plain.css.zst" is a folder
        Case{"old.css", "gzip", "(none)", "newer"},
        Case{"a.css.gz", "br", "(none)", "in gzip"},
    };
    const TemporaryFolder folder;
    folder.fill("a.css", "the original");
    folder.fill("a.css.br", "in brotli");
    folder.fill("a.css.gz", "in gzip");
    folder.fill("plain.css", "no sibling");
    folder.fill("old.css.gz", "of before");
    folder.fill("old.css", "newer");
    folder.fill("alone.css.gz", "no original");
    std::filesystem::create_directory(folder.path("plain.css.zst"));
    const auto changed = std::filesystem::last_write_time(folder.path("old.css"));
    std::filesystem::last_write_time(folder.path("old.css.gz"), changed - std::chrono::seconds(1));
    for (const Case& each : cases) {
        const std::string answer = CodedSite(folder).ask(each.path, each.accepted);
        EXPECT_EQ(field(answer, "Content-Encoding"), each.coding) << each.accepted;
        EXPECT_EQ(body(answer), each.body) << each.accepted;
        EXPECT_EQ(field(answer, "Vary"), "Accept-Encoding");
        EXPECT_EQ(field(answer, "Content-Type"), std::string_view(each.path).ends_with(".gz")
                                                     ? "application/gzip"
                                                     : "text/css; charset=utf-8");
    }
    EXPECT_EQ(status_line(CodedSite(folder).ask("alone.css", "gzip")), "HTTP/1.1 404 Not Found");
}

TEST(HttpStaticFiles, ACodedSiblingIsARepresentationOfItsOwn) {
    const TemporaryFolder folder;
    folder.fill("a.css", "the original");
    folder.fill("a.css.br", "in brotli");
    folder.fill("a.css.gz", "in gzip");
    const auto ask = [&](const std::string& accepted, const std::string& more,
                         const std::string& method = "GET") {
        return CodedSite(folder).ask("a.css", accepted, more, method);
    };
    const std::string tag = field(ask("gzip", ""), "ETag");
    EXPECT_TRUE(tag.ends_with("-gzip\"")) << tag;
    EXPECT_NE(field(ask("br", ""), "ETag"), tag);
    EXPECT_FALSE(field(ask("", ""), "ETag").contains("-gzip"));

    const std::string part = ask("gzip", "Range: bytes=3-\r\nIf-Range: " + tag + "\r\n");
    EXPECT_EQ(status_line(part), "HTTP/1.1 206 Partial Content");
    EXPECT_EQ(field(part, "Content-Range"), "bytes 3-6/7");
    EXPECT_EQ(field(part, "Content-Encoding"), "gzip");
    EXPECT_EQ(body(part), "gzip");
    const std::string other = ask("", "Range: bytes=3-\r\nIf-Range: " + tag + "\r\n");
    EXPECT_EQ(status_line(other), "HTTP/1.1 200 OK"); // the tag is another representation's
    EXPECT_EQ(body(other), "the original");

    const std::string known = ask("gzip", "If-None-Match: " + tag + "\r\n");
    EXPECT_EQ(status_line(known), "HTTP/1.1 304 Not Modified");
    EXPECT_EQ(field(known, "Vary"), "Accept-Encoding");
    EXPECT_EQ(field(known, "Content-Encoding"), "(none)");
    const std::string outside = ask("gzip", "Range: bytes=7-\r\n");
    EXPECT_EQ(status_line(outside), "HTTP/1.1 416 Range Not Satisfiable");
    EXPECT_EQ(field(outside, "Content-Encoding"), "(none)");

    const std::string head = ask("gzip", "", "HEAD");
    EXPECT_EQ(field(head, "Content-Length"), "7");
    EXPECT_EQ(field(head, "Content-Encoding"), "gzip");
    EXPECT_EQ(body(head), "");
}

TEST(HttpStaticFiles, AnswerConditionalRequests) {
    Site site;
    std::string tag;
    std::string date;
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        const std::string whole = co_await exchange(endpoint, get("/s/a.txt"));
        tag = field(whole, "ETag");
        date = field(whole, "Last-Modified");
        const auto status = [&](std::string fields) -> Task<std::string> {
            co_return status_line(co_await exchange(endpoint, get("/s/a.txt", fields)))
                .substr(9, 3);
        };
        const std::string old = "Sun, 06 Nov 1994 08:49:37 GMT";
        EXPECT_EQ(co_await status("If-None-Match: " + tag + "\r\n"), "304");
        EXPECT_EQ(co_await status("If-None-Match: \"x\", W/" + tag + "\r\n"), "304");
        EXPECT_EQ(co_await status("If-None-Match: *\r\n"), "304");
        EXPECT_EQ(co_await status("If-None-Match: \"x\"\r\n"), "200");
        EXPECT_EQ(co_await status("If-Modified-Since: " + date + "\r\n"), "304");
        EXPECT_EQ(co_await status("If-Modified-Since: " + old + "\r\n"), "200");
        EXPECT_EQ(co_await status("If-Modified-Since: yesterday\r\n"), "200");
        EXPECT_EQ(co_await status("If-None-Match: \"x\"\r\nIf-Modified-Since: " + date + "\r\n"),
                  "200");
        EXPECT_EQ(co_await status("If-Match: " + tag + "\r\n"), "200");
        EXPECT_EQ(co_await status("If-Match: W/" + tag + "\r\n"), "412");
        EXPECT_EQ(co_await status("If-Match: \"x\"\r\n"), "412");
        EXPECT_EQ(co_await status("If-Unmodified-Since: " + old + "\r\n"), "412");
        EXPECT_EQ(co_await status("If-Unmodified-Since: " + date + "\r\n"), "200");
        const std::string unchanged =
            co_await exchange(endpoint, get("/s/a.txt", "If-None-Match: " + tag + "\r\n"));
        EXPECT_EQ(body(unchanged), "");
        EXPECT_EQ(field(unchanged, "ETag"), tag);
        EXPECT_EQ(field(unchanged, "Content-Length"), "(none)");
    });
}

TEST(HttpStaticFiles, AConditionThatFailsIsNoSuccessForMethodsThatChange) {
    Site site;
    http::StaticFiles files = expect(http::StaticFiles::open(site.folder.path("root")));
    const auto serve = [&](http::Request& request, http::Response& response) {
        return files.serve(request, response, "a.txt");
    };
    site.server.put("/a", serve);
    site.server.delete_("/a", serve);
    std::vector<std::string> requests;
    for (const char* method : {"PUT", "DELETE"}) {
        for (const char* condition : {"If-None-Match: *", "If-None-Match: \"x\"",
                                      "If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT"}) {
            requests.push_back(std::string(method) + " /a HTTP/1.1\r\nHost: a\r\n" + condition +
                               "\r\nContent-Length: 0\r\n\r\n");
        }
    }
    std::string statuses;
    for (const std::string& answer : site.ask(requests)) {
        statuses += status_line(answer).substr(9, 3) + " ";
    }
    EXPECT_EQ(statuses, "412 200 200 412 200 200 ");
}

TEST(HttpStaticFiles, AnswerRanges) {
    Site site;
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        const auto ask = [&](std::string fields) -> Task<std::string> {
            const std::string text = co_await exchange(endpoint, get("/s/a.txt", fields));
            co_return status_line(text).substr(9, 3) + " " + field(text, "Content-Range") + " " +
                body(text);
        };
        EXPECT_EQ(co_await ask("Range: bytes=2-4\r\n"), "206 bytes 2-4/10 234");
        EXPECT_EQ(co_await ask("Range: bytes=7-\r\n"), "206 bytes 7-9/10 789");
        EXPECT_EQ(co_await ask("Range: bytes=-3\r\n"), "206 bytes 7-9/10 789");
        EXPECT_EQ(co_await ask("Range: bytes=5-100\r\n"), "206 bytes 5-9/10 56789");
        EXPECT_EQ(co_await ask("Range: bytes=10-\r\n"),
                  "416 bytes */10 416 Range Not Satisfiable\n");
        EXPECT_EQ(co_await ask("Range: bytes=-0\r\n"),
                  "416 bytes */10 416 Range Not Satisfiable\n");
        EXPECT_EQ(co_await ask("Range: bytes=0-1,3-4\r\n"), "200 (none) 0123456789");
        EXPECT_EQ(co_await ask("Range: bytes=4-2\r\n"), "200 (none) 0123456789");
        EXPECT_EQ(co_await ask("Range: lines=1-2\r\n"), "200 (none) 0123456789");
        const std::string whole = co_await exchange(endpoint, get("/s/a.txt"));
        const std::string range = "Range: bytes=0-0\r\nIf-Range: ";
        EXPECT_EQ(co_await ask(range + field(whole, "ETag") + "\r\n"), "206 bytes 0-0/10 0");
        EXPECT_EQ(co_await ask(range + field(whole, "Last-Modified") + "\r\n"),
                  "206 bytes 0-0/10 0");
        EXPECT_EQ(co_await ask(range + "\"other\"\r\n"), "200 (none) 0123456789");
        const std::string large =
            co_await exchange(endpoint, get("/s/large.bin", "Range: bytes=100000-299999\r\n"));
        EXPECT_EQ(body(large), std::string(200'000, 'x'));
    });
}

TEST(HttpStaticFiles, RangesAreParsed) {
    const auto range = [](std::string_view field, std::uint64_t size) {
        const std::optional<ByteRange> part = http::parse_range(field, size);
        return part ? std::to_string(part->begin) + "+" + std::to_string(part->size)
                    : std::string("none");
    };
    EXPECT_EQ(range("bytes=0-0", 1), "0+1");
    EXPECT_EQ(range("BYTES=0-", 5), "0+5");
    EXPECT_EQ(range("bytes=-9", 5), "0+5");
    EXPECT_EQ(range("bytes=99999999999999999999-", 5), "0+0");
    EXPECT_EQ(range("bytes=0-99999999999999999999", 5), "0+5");
    EXPECT_EQ(range("bytes=0-", 0), "none");
    EXPECT_EQ(range("bytes=-1", 0), "none");
    for (const std::string_view field : {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=1",
                                         "bytes=+1-2", "bytes=1-2-3", "bytes=--1", "bytes=1 -2"}) {
        EXPECT_EQ(range(field, 5), "none") << field;
    }
}

TEST(HttpStaticFiles, ReportAMissingFolder) {
    http::Server server;
    EXPECT_EQ(server.files("/s", "/nowhere/at/all").error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(http::StaticFiles::open(std::string("/tmp\0more", 9)).error(),
              std::errc::invalid_argument);
}

} // namespace
