// Chromium, without a window, as the client of two servers: one that compresses, and one that does
// not. Its page is browser.html.

#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include "coro/support/chromium.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/required_program.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::net::Endpoint;
using penstock::testing::Chromium;
using penstock::testing::expect;
using penstock::testing::require_program;
using penstock::testing::Watchdog;
using penstock::ws::AcceptOptions;
using penstock::ws::Server;
using penstock::ws::WebSocket;

/// The targets that browser.html asks for.
class Site {
public:
    explicit Site(AcceptOptions accept)
        : server_(expect(Server::listen(Endpoint::loopback(0), {.accept = std::move(accept)}))) {}

    [[nodiscard]] std::string url() const {
        return "ws://" + expect(server_.local_endpoint()).to_string();
    }

    Task<Result<>> serve() {
        return server_.serve([this](WebSocket& socket) { return answer(socket); });
    }
    void stop() { server_.shutdown(); }

    /// The text that the page reports.
    penstock::Channel<std::string>& outcomes() noexcept { return outcomes_; }

private:
    Task<Result<>> answer(WebSocket& socket) {
        if (socket.target() == "/parts") {
            auto writer = co_await unwrap(socket.begin_text());
            co_await unwrap(writer.write("in "));
            co_await unwrap(writer.write("three "));
            co_await unwrap(writer.finish("parts"));
            co_return co_await socket.close(4001, "asked");
        }
        if (socket.target() == "/outcomes") {
            const auto text = std::string((co_await unwrap(socket.receive())).text());
            co_return co_await outcomes_.send(text);
        }
        for (;;) {
            co_await unwrap(socket.send(co_await unwrap(socket.receive())));
        }
    }

    Server server_;
    penstock::Channel<std::string> outcomes_{1};
};

TEST(WebSocketInABrowser, ChromiumAndTheServersUnderstandEachOther) {
    require_program("Chromium", Chromium::is_installed());
    if (IsSkipped() || HasFatalFailure()) {
        return;
    }
    const Watchdog watchdog(110);
    const auto program = []() -> Task<> {
        Site compressing({.subprotocols = {"chat"}, .compression = penstock::ws::deflate()});
        Site plain({.subprotocols = {"chat"}});
        std::string text;
        const auto browsing = [&]() -> Task<Result<>> {
            Chromium browser("file://" PENSTOCK_BROWSER_PEER "?" + compressing.url() + "," +
                             plain.url());
            text = co_await unwrap(compressing.outcomes().receive());
            co_await browser.stop();
            compressing.stop();
            plain.stop();
            co_return Result<>();
        };
        expect(co_await penstock::all(compressing.serve(), plain.serve(), browsing()));
        const auto expected = [](std::string_view extension) {
            return R"({"wrong":[],"subprotocol":"chat","compression":")" + std::string(extension) +
                   R"(","own":[4002,"",true],"without":"","large":1009,)"
                   R"("parts":"in three parts","theirs":[4001,"asked",true]})";
        };
        EXPECT_EQ(text, "[" + expected("permessage-deflate") + "," + expected("") + "]");
    };
    run(program());
}

} // namespace
