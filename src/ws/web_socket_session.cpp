#include <penstock/ws/web_socket_session.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <variant>

#include <sys/socket.h>

#include <penstock/net/stream_socket.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>

namespace penstock::ws {

namespace {

/// Whether a server that answers a handshake with it may accept a later one.
bool is_temporary(int status) noexcept {
    constexpr std::array statuses{408, 425, 429, 500, 502, 503, 504};
    return std::ranges::find(statuses, status) != statuses.end();
}

/// Whether the server has said that it wants no such client.
bool is_final_close(std::uint16_t code) noexcept {
    return code == close_code::protocol_error || code == close_code::unsupported_data ||
           (code >= close_code::invalid_payload && code <= close_code::missing_extension) ||
           code >= 3000;
}

/// Whether nothing of a message that failed so was sent.
bool nothing_was_sent(std::error_code error) noexcept {
    return error == Error::closed || error == Error::broken;
}

} // namespace

WebSocketSession::WebSocketSession(std::string url, SessionOptions options)
    : url_(std::move(url)), options_(std::move(options)),
      backoff_(options_.first_delay, options_.longest_delay), random_(std::random_device{}()) {
    options_.connect.on_refusal = [this, given = std::move(options_.connect.on_refusal)](
                                      const codec::http::ResponseHead& head) {
        status_ = head.status;
        if (given) {
            given(head);
        }
    };
}

WebSocketSession::~WebSocketSession() = default;

void WebSocketSession::report(std::error_code error) const noexcept {
    if (options_.on_failure) {
        options_.on_failure(error);
    }
}

void WebSocketSession::end(std::error_code error) noexcept {
    if (!end_) {
        end_ = error;
        ended_.set();
    }
}

bool WebSocketSession::is_final(std::error_code error, std::uint16_t code) const noexcept {
    if (error == HandshakeError::unexpected_status || error == Error::proxy_refused) {
        return !is_temporary(status_);
    }
    if (error == Error::closed) {
        return is_final_close(code);
    }
    return error.category() == handshake_category() || error == Error::protocol_violation ||
           error == Error::invalid_payload || error == Error::message_too_big ||
           error == Error::invalid_http || error == Error::unexpected_extension ||
           error == std::errc::invalid_argument || error == std::errc::protocol_not_supported;
}

bool WebSocketSession::lose(const Shared& socket, std::error_code error) {
    if (end_ || current_ != socket) { // another task was told before
        return !end_;
    }
    current_ = nullptr;
    // Another task may still wait for data of it.
    const net::StreamSocket* const transport = socket->next_layer().transport();
    if (const int open = transport != nullptr ? transport->native_handle() : -1; open >= 0) {
        (void)::shutdown(open, SHUT_RDWR);
    }
    const std::chrono::nanoseconds lasted(io::monotonic_now() - connected_at_);
    if (lasted >= options_.stable_after) {
        backoff_.reset();
    }
    report(error);
    if (is_final(error, socket->close_code())) {
        end(error);
    }
    return !end_;
}

Task<Result<>> WebSocketSession::wait_before_attempt() {
    if (!std::exchange(waits_, true)) {
        co_return Result<>();
    }
    const double part = std::uniform_real_distribution<double>()(random_);
    co_return co_await sleep_for(backoff_.next(part));
}

/// What the server must know before the program goes on. Subscriptions that are made meanwhile are
/// sent, too.
Task<Result<>> WebSocketSession::prepare(WebSocket& socket) {
    if (options_.greet) {
        co_await unwrap(options_.greet(socket));
    }
    const std::uint64_t attempt = ++attempts_;
    const auto next = [&] {
        return std::ranges::find_if(subscriptions_,
                                    [&](const Subscription& each) { return each.sent != attempt; });
    };
    for (auto each = next(); each != subscriptions_.end(); each = next()) {
        each->sent = attempt;
        const std::string message = each->message; // the list may change during the send
        co_await unwrap(socket.send_text(message));
    }
    co_return Result<>();
}

Task<Result<WebSocketSession::Shared>> WebSocketSession::attempt() {
    co_await unwrap(wait_before_attempt());
    status_ = 0;
    Result<WebSocket> opened = co_await WebSocket::connect(url_, options_.connect);
    std::error_code error = opened ? std::error_code() : opened.error();
    std::uint16_t code = 0;
    if (opened) {
        auto socket = std::make_shared<WebSocket>(std::move(*opened));
        const Result<> prepared = co_await prepare(*socket);
        if (prepared && end_) {
            co_return failure(end_);
        }
        if (prepared) { // at once: who subscribes from now on sends it
            current_ = socket;
            connected_at_ = io::monotonic_now();
            ++connections_;
            co_return socket;
        }
        error = prepared.error();
        code = socket->close_code();
    }
    if (error == std::errc::operation_canceled) {
        co_return failure(error);
    }
    report(error);
    if (is_final(error, code)) {
        end(error);
    }
    co_return Shared();
}

/// Makes attempts until there is a connection.
Task<Result<WebSocketSession::Shared>> WebSocketSession::open() {
    while (!end_) {
        Shared socket = co_await unwrap(attempt());
        if (socket) {
            co_return socket;
        }
    }
    co_return failure(end_);
}

/// The connection; a new one if there is none.
Task<Result<WebSocketSession::Shared>> WebSocketSession::present() {
    if (end_) {
        co_return failure(end_);
    }
    if (current_) {
        co_return current_;
    }
    const Result<penstock::detail::LocalMutex::Guard> turn = co_await connecting_.lock();
    if (!turn) {
        co_return failure(turn.error());
    }
    if (!end_ && !current_) { // no other task has connected
        auto first = co_await race(open(), ended_.wait());
        auto* const opened = std::get_if<0>(&first);
        if (!end_) {
            co_return opened != nullptr ? std::move(*opened)
                                        : failure(std::errc::operation_canceled);
        }
    }
    if (end_) {
        co_return failure(end_);
    }
    co_return current_;
}

Task<Result<>> WebSocketSession::connect() {
    co_await unwrap(present());
    co_return Result<>();
}

Task<Result<Message>> WebSocketSession::receive() {
    if (receiving_) {
        co_return failure(std::errc::device_or_resource_busy);
    }
    receiving_ = true;
    struct Receiving {
        bool& flag;
        explicit Receiving(bool& given) noexcept : flag(given) {}
        ~Receiving() { flag = false; }
        Receiving(const Receiving&) = delete;
        Receiving& operator=(const Receiving&) = delete;
    };
    const Receiving receiving(receiving_);
    for (;;) {
        delivered_ = nullptr;
        const Shared socket = co_await unwrap(present());
        const Result<Message> message = co_await socket->receive();
        if (message) {
            delivered_ = socket;
            co_return message;
        }
        if (message.error() == std::errc::operation_canceled) {
            co_return message;
        }
        if (!lose(socket, message.error())) {
            co_return failure(end_);
        }
    }
}

Task<Result<>> WebSocketSession::send(Message::Kind kind, Bytes payload) {
    for (;;) {
        const Shared socket = co_await unwrap(present());
        Result<> sent;
        if (kind == Message::Kind::text) {
            sent = co_await socket->send_text(
                {reinterpret_cast<const char*>(payload.data()), payload.size()});
        } else {
            sent = co_await socket->send_binary(payload);
        }
        if (sent || sent.error() == std::errc::operation_canceled) {
            co_return sent;
        }
        const bool goes_on = lose(socket, sent.error());
        if (!goes_on || !nothing_was_sent(sent.error())) {
            co_return failure(goes_on ? sent.error() : end_);
        }
    }
}

Task<Result<>> WebSocketSession::send_text(std::string text) {
    co_return co_await send(Message::Kind::text, Bytes(text));
}

Task<Result<>> WebSocketSession::send_binary(Bytes payload) {
    return send(Message::Kind::binary, payload);
}

Task<Result<>> WebSocketSession::subscribe(std::string name, std::string message) {
    const auto found = std::ranges::find(subscriptions_, name, &Subscription::name);
    if (found != subscriptions_.end()) {
        found->message = message;
        found->sent = 0;
    } else {
        subscriptions_.push_back({.name = std::move(name), .message = message});
    }
    if (const Shared socket = current_) {
        const Result<> sent = co_await socket->send_text(message);
        if (!sent && sent.error() == std::errc::operation_canceled) {
            co_return sent;
        }
        if (!sent) {
            (void)lose(socket, sent.error()); // the next connection begins with it
        }
    }
    co_return Result<>();
}

Task<Result<bool>> WebSocketSession::unsubscribe(std::string_view name, std::string message) {
    const auto found = std::ranges::find(subscriptions_, name, &Subscription::name);
    if (found == subscriptions_.end()) {
        co_return false;
    }
    subscriptions_.erase(found);
    if (const Shared socket = message.empty() ? nullptr : current_) {
        const Result<> sent = co_await socket->send_text(message);
        if (!sent && sent.error() == std::errc::operation_canceled) {
            co_return failure(sent.error());
        }
        if (!sent) {
            (void)lose(socket, sent.error());
        }
    }
    co_return true;
}

Task<Result<>> WebSocketSession::close(std::uint16_t code) {
    end(Error::closed);
    const Shared socket = std::exchange(current_, nullptr);
    if (!socket) {
        co_return Result<>();
    }
    const Result<> closed = co_await socket->close(code);
    co_return closed;
}

} // namespace penstock::ws
