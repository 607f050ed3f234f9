#include <penstock/ws/server.hpp>

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <variant>

#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/detail/server/seat.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/http/server_options.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>

#include "ws/conversation.hpp"

namespace penstock::ws {

using penstock::detail::AcceptLoop;

struct Server::State final : AcceptLoop::Reporter {
    using Listener = std::variant<net::TcpListener, net::UnixListener>;

    State(Listener&& source, ServerOptions&& given)
        : listener(std::move(source)), options(std::move(given)),
          // A WebSocket never gives its place to another one: that it is quiet does not mean that
          // it is not needed.
          accept_loop(options.maximum_connections, AcceptLoop::for_ever, *this) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() = default;

    /// The seat of a connection whose handshake is done.
    struct Seat final : penstock::detail::Seat {
        Seat(AcceptLoop::Home& home, AcceptLoop::Place place, State& given) noexcept
            : penstock::detail::Seat(home, std::move(place)), state(given) {}
        void report(std::error_code error, const std::exception_ptr& thrown) noexcept override {
            if (thrown) {
                state.handle(thrown);
            } else {
                state.report(error);
            }
        }
        State& state;
    };

    /// `serve_one(stream, place, home)` returns the task of a connection.
    Task<Result<>> serve(auto serve_one);
    /// `begin(socket, seat)` begins the conversation.
    template <typename Stream>
    Task<void> serve_one(Stream stream, AcceptLoop::Place place, AcceptLoop::Home& home,
                         const auto& begin);
    Task<Result<WebSocket>> accept_encrypted(net::TcpStream stream);
    Task<Result<WebSocket>> accept_one(net::TcpStream stream);
    Task<Result<WebSocket>> accept_one(net::UnixStream stream);

    void report(std::error_code error) const noexcept {
        if (options.on_error) {
            options.on_error(error);
        }
    }
    void cannot_accept(std::error_code error) noexcept override { report(error); }
    void handle(const std::exception_ptr& thrown) noexcept override {
        if (options.on_exception) {
            options.on_exception(thrown);
        } else {
            std::fprintf(stderr, "ws::Server: %s\n",
                         http::ServerFailure{.exception = thrown}.to_string().c_str());
        }
    }

    Listener listener;
    ServerOptions options;
    AcceptLoop accept_loop; ///< lists the connections whose handlers run
    bool serving = false;
};

Task<Result<WebSocket>> Server::State::accept_encrypted(net::TcpStream stream) {
    AnyStream encrypted = co_await unwrap(options.encrypt(std::move(stream)));
    co_return co_await WebSocket::accept(std::move(encrypted), options.accept);
}

Task<Result<WebSocket>> Server::State::accept_one(net::TcpStream stream) {
    // One limit for both handshakes.
    return options.encrypt ? timeout(penstock::detail::time_limit(options.accept.limits.handshake),
                                     accept_encrypted(std::move(stream)))
                           : WebSocket::accept(std::move(stream), options.accept);
}

Task<Result<WebSocket>> Server::State::accept_one(net::UnixStream stream) {
    return WebSocket::accept(AnyStream(std::move(stream)), options.accept);
}

/// The connection takes its place along: none of the server's tasks waits for it.
template <typename Stream>
Task<void> Server::State::serve_one(Stream stream, AcceptLoop::Place place, AcceptLoop::Home& home,
                                    const auto& begin) {
    Result<WebSocket> accepted = co_await accept_one(std::move(stream));
    if (!accepted) {
        if (!detail::is_end_of_connection(accepted.error())) {
            report(accepted.error());
        }
    } else if (accept_loop.stopping()) {
        (void)co_await accepted->close(close_code::going_away, detail::stop_reason);
    } else {
        begin(std::move(*accepted), std::make_unique<Seat>(home, std::move(place), *this));
    }
}

Task<Result<>> Server::State::serve(auto serve_one) {
    if (std::exchange(serving, true)) {
        co_return failure(std::errc::device_or_resource_busy);
    }
    if (auto* const tcp = std::get_if<net::TcpListener>(&listener)) {
        co_return co_await accept_loop.serve(*tcp, serve_one);
    }
    co_return co_await accept_loop.serve(std::get<net::UnixListener>(listener), serve_one);
}

Result<Server> Server::listen(const net::Endpoint& endpoint, ServerOptions options) {
    if (options.maximum_connections == 0) {
        return failure(std::errc::invalid_argument);
    }
    Result<net::TcpListener> listener = net::TcpListener::listen(endpoint);
    if (!listener) {
        return failure(listener.error());
    }
    return Server(std::move(*listener), std::move(options));
}

Server::Server(net::TcpListener listener, ServerOptions options)
    : state_("a ws::Server", std::make_unique<State>(std::move(listener), std::move(options))) {}
Server::Server(net::UnixListener listener, ServerOptions options)
    : state_("a ws::Server", std::make_unique<State>(std::move(listener), std::move(options))) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

Result<net::Endpoint> Server::local_endpoint() const {
    const auto* const tcp = std::get_if<net::TcpListener>(&state_->listener);
    return tcp != nullptr ? tcp->local_endpoint()
                          : failure(std::errc::address_family_not_supported);
}

std::size_t Server::connections() const noexcept {
    return state_->accept_loop.connections();
}

Task<Result<>> Server::serve(Handler handler) {
    State& state = *state_;
    const auto begin = [&](WebSocket&& socket, std::unique_ptr<penstock::detail::Seat> seat) {
        detail::Conversation::begin(std::move(seat), std::move(socket), handler);
    };
    co_return co_await state.serve(
        [&](auto stream, AcceptLoop::Place place, AcceptLoop::Home& home) {
            return state.serve_one(std::move(stream), std::move(place), home, begin);
        });
}

Task<Result<>> Server::serve(Callbacks callbacks) {
    State& state = *state_;
    const auto begin = [&](WebSocket&& socket, std::unique_ptr<penstock::detail::Seat> seat) {
        callbacks.open(std::move(socket), std::move(seat), state.options.accept);
    };
    co_return co_await state.serve(
        [&](auto stream, AcceptLoop::Place place, AcceptLoop::Home& home) {
            return state.serve_one(std::move(stream), std::move(place), home, begin);
        });
}

void Server::shutdown(std::chrono::milliseconds grace) {
    state_->accept_loop.stop(std::chrono::nanoseconds(penstock::detail::nanoseconds_of(grace)));
}

} // namespace penstock::ws
