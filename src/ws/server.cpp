#include <penstock/ws/server.hpp>

#include <cstdio>
#include <exception>
#include <optional>

#include <penstock/http/server_options.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/race.hpp>
#include <penstock/scope.hpp>
#include <penstock/sleep.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/sync/semaphore.hpp>
#include <penstock/timeout.hpp>
#include <penstock/unwrap.hpp>

#include "ws/conversation.hpp"

namespace penstock::ws {

namespace {

/// While the process or the machine lacks what a connection needs, a retry at once fails again.
constexpr std::chrono::milliseconds pause_without_resources{100};

bool lacks_resources(std::error_code error) noexcept {
    return error == std::errc::too_many_files_open ||
           error == std::errc::too_many_files_open_in_system ||
           error == std::errc::no_buffer_space || error == std::errc::not_enough_memory;
}

} // namespace

struct Server::State {
    /// A connection whose handler runs. Shared with the task that closes it at the shutdown.
    struct Open : io::ListHook<Open>, std::enable_shared_from_this<Open> {
        explicit Open(WebSocket&& accepted) noexcept : socket(std::move(accepted)) {}
        WebSocket socket;
    };

    /// Keeps a connection in the list.
    class Listed {
    public:
        Listed(State& state, Open& open) noexcept : state_(state), open_(open) {
            state_.open.push_back(open_);
        }
        ~Listed() { state_.open.remove(open_); }
        Listed(const Listed&) = delete;
        Listed& operator=(const Listed&) = delete;

    private:
        State& state_;
        Open& open_;
    };

    State(net::TcpListener&& source, ServerOptions&& given)
        : listener(std::move(source)), options(std::move(given)),
          places(options.maximum_connections) {}

    Task<Result<>> accept_all(Scope& scope, const Handler& handler);
    Task<void> serve_one(net::TcpStream stream, sync::Semaphore::Permit place,
                         const Handler& handler);
    void report(const std::exception_ptr& thrown) const;
    static Task<void> close_one(std::shared_ptr<Open> open);
    Task<Result<WebSocket>> accept_one(net::TcpStream stream);
    Task<Result<std::shared_ptr<Open>>> open_one(net::TcpStream stream);

    net::TcpListener listener;
    ServerOptions options;
    sync::Semaphore places;
    sync::Event stopping{};
    std::chrono::milliseconds grace{};
    io::IntrusiveList<Open> open{};
    std::size_t count = 0;
    bool serving = false;
};

Task<void> Server::State::close_one(std::shared_ptr<Open> open) {
    (void)co_await open->socket.begin_close(close_code::going_away, detail::stop_reason);
}

Task<Result<WebSocket>> Server::State::accept_one(net::TcpStream stream) {
    if (!options.encrypt) {
        co_return co_await WebSocket::accept(std::move(stream), options.accept);
    }
    AnyStream encrypted = co_await unwrap(
        timeout(options.accept.limits.handshake, options.encrypt(std::move(stream))));
    co_return co_await WebSocket::accept(std::move(encrypted), options.accept);
}

Task<Result<std::shared_ptr<Server::State::Open>>> Server::State::open_one(net::TcpStream stream) {
    co_return std::make_shared<Open>(co_await unwrap(accept_one(std::move(stream))));
}

/// One frame for the life of a connection: a server holds as many of them as it has connections, so
/// what only the handshake or the end needs has frames of its own.
Task<void> Server::State::serve_one(net::TcpStream stream, sync::Semaphore::Permit /*place*/,
                                    const Handler& handler) {
    ++count;
    Result<> served;
    std::exception_ptr thrown;
    std::shared_ptr<Open> shared;
    try {
        if (Result<std::shared_ptr<Open>> opened = co_await open_one(std::move(stream)); opened) {
            shared = std::move(*opened);
        } else {
            served = failure(opened.error());
        }
    } catch (...) {
        thrown = std::current_exception();
    }
    if (shared) {
        const Listed listed(*this, *shared);
        if (stopping.is_set()) {
            served = co_await shared->socket.close(close_code::going_away, detail::stop_reason);
        } else {
            try {
                served = co_await handler(shared->socket);
            } catch (...) {
                thrown = std::current_exception();
            }
            served = co_await detail::end_conversation(shared->socket, served, thrown != nullptr);
        }
    }
    shared.reset();
    --count;
    if (thrown) {
        report(thrown);
    } else if (!served && !detail::is_end_of_connection(served.error()) && options.on_error) {
        options.on_error(served.error());
    }
}

void Server::State::report(const std::exception_ptr& thrown) const {
    if (options.on_exception) {
        options.on_exception(thrown);
    } else {
        std::fprintf(stderr, "ws::Server: %s\n",
                     http::ServerFailure{.exception = thrown}.to_string().c_str());
    }
}

Task<Result<>> Server::State::accept_all(Scope& scope, const Handler& handler) {
    for (;;) {
        sync::Semaphore::Permit place = co_await unwrap(places.acquire());
        Result<net::TcpStream> stream = co_await listener.accept();
        if (stream) {
            scope.spawn(serve_one(std::move(*stream), std::move(place), handler));
        } else if (lacks_resources(stream.error())) {
            co_await unwrap(sleep_for(pause_without_resources));
        } else {
            co_return failure(stream.error());
        }
    }
}

Result<Server> Server::listen(const net::Endpoint& endpoint, ServerOptions options) {
    Result<net::TcpListener> listener = net::TcpListener::listen(endpoint);
    if (!listener) {
        return failure(listener.error());
    }
    return Server(std::move(*listener), std::move(options));
}

Server::Server(net::TcpListener listener, ServerOptions options)
    : state_(std::make_unique<State>(std::move(listener), std::move(options))) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

Result<net::Endpoint> Server::local_endpoint() const {
    return state_->listener.local_endpoint();
}

std::size_t Server::connections() const noexcept {
    return state_->count;
}

Task<Result<>> Server::serve(Handler handler) {
    State& state = *state_;
    if (std::exchange(state.serving, true)) {
        co_return failure(std::errc::device_or_resource_busy);
    }
    co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
        auto first = co_await race(state.accept_all(scope, handler), state.stopping.wait());
        if (first.index() == 0) {
            co_return std::get<0>(first);
        }
        state.listener.close();
        for (State::Open* each = state.open.front(); each != nullptr;
             each = io::IntrusiveList<State::Open>::after(*each)) {
            scope.spawn(State::close_one(each->shared_from_this()));
        }
        (void)co_await scope.drain(state.grace);
        co_return Result<>();
    });
}

void Server::shutdown(std::chrono::milliseconds grace) {
    if (!state_->stopping.is_set()) {
        state_->grace = grace;
        state_->stopping.set();
    }
}

} // namespace penstock::ws
