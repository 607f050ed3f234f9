#pragma once

#include <cstddef>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/tcp_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/tls/context.hpp>
#include <penstock/tls/stream.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/tls/certificates.hpp"
#include "support/stress.hpp"
#include "support/watchdog.hpp"

namespace penstock::testing {

template <typename S> struct TlsPair {
    tls::Stream<S> client;
    tls::Stream<S> server;
};

/// Both handshakes.
template <typename S>
Task<Result<TlsPair<S>>> shake_hands(S near, S far, tls::Context client, tls::Context server,
                                     std::string name = "localhost") {
    auto both = co_await all(
        tls::Stream<S>::connect(std::forward<S>(near), std::move(client), std::move(name)),
        tls::Stream<S>::accept(std::forward<S>(far), std::move(server)));
    if (!both) {
        co_return failure(both.error());
    }
    co_return TlsPair<S>{std::move(std::get<0>(*both)), std::move(std::get<1>(*both))};
}

inline std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::byte>(i * 31 + i / 253);
    }
    return bytes;
}

/// An authority that clients trust, and servers with its certificates.
class TlsTest : public ::testing::Test {
protected:
    [[nodiscard]] tls::Context client(tls::Context::ClientOptions options = {}) const {
        if (options.authorities_file.empty()) {
            options.authorities_file = authority.file();
        }
        return tls::Context::client(options).value();
    }

    tls::Context server(tls::Context::ServerOptions options = {},
                        const std::string& names = "DNS:localhost") {
        options.identity = authority.sign(names);
        return tls::Context::server(options).value();
    }

    /// The client's result of a handshake over TCP.
    static Task<std::error_code> refusal(tls::Context client, tls::Context server,
                                         std::string name) {
        TcpPair pair = co_await connect_pair();
        const auto both = co_await all_settled(
            tls::Stream<net::TcpStream>::connect(std::move(pair.near), std::move(client),
                                                 std::move(name)),
            tls::Stream<net::TcpStream>::accept(std::move(pair.far), std::move(server)));
        const auto& connected = std::get<0>(both);
        co_return connected ? std::error_code() : connected.error();
    }

    Authority authority;
    Watchdog watchdog{Stress::patience()};
};

} // namespace penstock::testing
