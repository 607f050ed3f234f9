#include <penstock/ws/upgrade.hpp>

#include <exception>
#include <memory>
#include <utility>

#include <penstock/detail/server/seat.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/web_socket.hpp>

#include "ws/conversation.hpp"

namespace penstock::ws {

using penstock::detail::AcceptLoop;
using penstock::detail::Seat;

namespace {

/// The place in a `serve_connection`, which must wait for the end of its connection.
class WaitingSeat final : public Seat {
public:
    struct Outcome {
        std::error_code error{};
        std::exception_ptr thrown{};
        sync::Event ended{};
    };

    WaitingSeat(AcceptLoop::Home& home, Outcome& outcome) noexcept
        : Seat(home, {}), outcome_(outcome) {}
    ~WaitingSeat() override { outcome_.ended.set(); }
    WaitingSeat(const WaitingSeat&) = delete;
    WaitingSeat& operator=(const WaitingSeat&) = delete;

    void report(std::error_code error, const std::exception_ptr& thrown) noexcept override {
        outcome_.error = error;
        outcome_.thrown = thrown;
    }

private:
    Outcome& outcome_;
};

/// What `open(seat)` begins, in the scope of the server's connections, or else in one that
/// ends with it.
Task<Result<>> give_away(http::Upgrade& upgrade, auto open) {
    if (std::unique_ptr<Seat> seat = http::detail::leave(upgrade)) {
        open(std::move(seat));
        co_return Result<>();
    }
    WaitingSeat::Outcome outcome;
    {
        // A connection that has no task when this one is cancelled ends with its home, and may
        // report something then.
        AcceptLoop::Home home(http::detail::accept_loop_of(upgrade));
        const auto conversation = [&](Scope& scope) -> Task<void> {
            home.scope = &scope;
            open(std::make_unique<WaitingSeat>(home, outcome));
            (void)co_await outcome.ended.wait();
        };
        (void)co_await with_scope(conversation);
    }
    if (outcome.thrown) {
        std::rethrow_exception(outcome.thrown);
    }
    co_return outcome.error ? failure(outcome.error) : Result<>();
}

/// `begin(seat, socket)` begins the conversation.
Task<Result<>> serve(http::Upgrade& upgrade, const AcceptOptions& options, auto begin) {
    Result<WebSocket> accepted = co_await WebSocket::accept(upgrade, options);
    if (!accepted) {
        // The program itself has refused, or the client has gone.
        const std::error_code error = accepted.error();
        co_return error == Error::refused || detail::is_end_of_connection(error) ? Result<>()
                                                                                 : failure(error);
    }
    if (http::detail::accept_loop_of(upgrade).stopping()) {
        (void)co_await accepted->close(close_code::going_away, detail::stop_reason);
        co_return Result<>();
    }
    co_return co_await give_away(
        upgrade, [&](std::unique_ptr<Seat> seat) { begin(std::move(seat), std::move(*accepted)); });
}

} // namespace

std::function<Task<Result<>>(http::Upgrade&)> upgrade_handler(Handler handler,
                                                              AcceptOptions options) {
    return [handler = std::move(handler), options = std::move(options)](http::Upgrade& upgrade) {
        return serve(upgrade, options, [&](std::unique_ptr<Seat> seat, WebSocket&& socket) {
            detail::Conversation::begin(std::move(seat), std::move(socket), handler);
        });
    };
}

std::function<Task<Result<>>(http::Upgrade&)> upgrade_handler(Callbacks callbacks,
                                                              AcceptOptions options) {
    return
        [callbacks = std::move(callbacks), options = std::move(options)](http::Upgrade& upgrade) {
            return serve(upgrade, options, [&](std::unique_ptr<Seat> seat, WebSocket&& socket) {
                callbacks.open(std::move(socket), std::move(seat), options);
            });
        };
}

} // namespace penstock::ws
