// Chromium, without a window, whose page opens a WebSocket on the connection of HTTP/2 that it has.

#include <penstock/http/server.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/tls/encryption.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/support/chromium.hpp"
#include "coro/tls/tls_test.hpp"
#include "support/required_program.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using penstock::testing::Chromium;
using penstock::testing::expect;
using penstock::testing::require_program;

constexpr std::string_view page = R"(<!doctype html><script>
const socket = new WebSocket("wss://" + location.host + "/chat", ["talk"]);
socket.onopen = () => socket.send("hello");
socket.onmessage = event => {
    socket.send("got " + event.data + " " + socket.protocol);
    socket.close(4001, "enough");
};
</script>)";

class Http2InABrowser : public penstock::testing::TlsTest {};

TEST_F(Http2InABrowser, ChromiumOpensAWebSocketOnAStream) {
    require_program("Chromium", Chromium::is_installed());
    if (IsSkipped() || HasFatalFailure()) {
        return;
    }
    http::ServerOptions options;
    options.http2 = true;
    http::Server site(options);
    sync::Event ended;
    int version = 0;
    std::string second;
    std::uint16_t closed = 0;
    site.get("/", [](http::Request&, http::Response& response) {
        response.header("Content-Type", "text/html");
        response.body(page);
    });
    site.upgrade("/chat", "websocket", [&](http::Upgrade& upgrade) -> Task<Result<>> {
        version = upgrade.head().major_version;
        auto socket = co_await unwrap(ws::WebSocket::accept(upgrade, {.subprotocols = {"talk"}}));
        co_await unwrap(socket.send(co_await unwrap(socket.receive())));
        second = (co_await unwrap(socket.receive())).text();
        EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
        closed = socket.close_code();
        ended.set();
        co_return Result<>();
    });
    const tls::Context context = server({.alpn = {"h2", "http/1.1"}});
    const auto browsing = [&](net::Endpoint endpoint) -> Task<Result<>> {
        Chromium browser("https://" + endpoint.to_string() + "/", {"--ignore-certificate-errors"});
        co_await unwrap(ended.wait());
        co_await browser.stop();
        site.stop(0s);
        co_return Result<>();
    };
    const auto program = [&]() -> Task<> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        const auto prepare = [&](net::TcpStream stream) {
            return tls::Stream<net::TcpStream>::accept(std::move(stream), context);
        };
        expect(co_await all(site.serve(std::move(listener), prepare), browsing(endpoint)));
    };
    run(program());
    EXPECT_EQ(version, 2);
    EXPECT_EQ(second, "got hello talk");
    EXPECT_EQ(closed, 4001);
}

} // namespace
