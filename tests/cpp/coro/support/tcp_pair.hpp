#pragma once

#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/task/task.hpp>

namespace penstock::testing {

/// Returns the value, or throws the error.
template <typename T> T expect(Result<T> result) {
    if (!result) {
        throw std::system_error(result.error());
    }
    if constexpr (!std::is_void_v<T>) {
        return std::move(*result);
    }
}

inline net::TcpListener listen_on_loopback() {
    return expect(net::TcpListener::listen(net::Endpoint::loopback(0)));
}

/// The two ends of a connection over the loopback interface.
struct TcpPair {
    net::TcpStream near;
    net::TcpStream far;
};

inline Task<TcpPair> connect_pair() {
    net::TcpListener listener = listen_on_loopback();
    net::TcpStream near =
        expect(co_await net::TcpStream::connect(expect(listener.local_endpoint())));
    net::TcpStream far = expect(co_await listener.accept());
    co_return TcpPair{std::move(near), std::move(far)};
}

} // namespace penstock::testing
