#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <penstock/detail/task/local_mutex.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/backoff.hpp>
#include <penstock/ws/message.hpp>
#include <penstock/ws/options.hpp>
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

struct SessionOptions {
    /// The options of each connection.
    ConnectOptions connect{};
    /// Before another attempt, the session waits for a random part of a bound. The bound starts
    /// with `first_delay` and doubles with each attempt, up to `longest_delay`.
    std::chrono::milliseconds first_delay{500};
    std::chrono::milliseconds longest_delay{30'000};
    /// After a connection that lasted this long, the bound starts with `first_delay` again.
    std::chrono::milliseconds stable_after{10'000};
    /// Runs on each new connection before the subscriptions are sent, for example to log in. Null:
    /// nothing. An error ends the connection, and is treated as an error of `connect`.
    std::function<Task<Result<>>(WebSocket&)> greet{};
    /// Gets the error of each attempt that failed and of each connection that was lost. Null:
    /// dropped. It must not throw.
    std::function<void(std::error_code)> on_failure{};
};

/// A client's session with a server, over as many connections as it takes. It connects when the
/// program first receives or sends, and again after each loss of the connection.
///
///     ws::WebSocketSession session("ws://localhost:8080/feed");
///     co_await unwrap(session.subscribe("trades", R"({"subscribe": "trades"})"));
///     for (;;) {
///         const ws::Message message = co_await unwrap(session.receive()); // over reconnections
///         ...
///     }
///
/// What the server sends while there is no connection is lost. A message of the program is sent at
/// most once.
///
/// The session ends when another attempt cannot succeed: after `invalid_argument` and
/// `protocol_not_supported`; after a handshake response that is not a WebSocket server's, except
/// with status 408, 425, 429, 500, 502, 503 or 504; after a close code 1002, 1003, 1007 to 1010 or
/// 3000 to 4999; after data from the server that violates the protocol or a limit. After any other
/// error it tries again, without end, until `close` or a cancellation.
///
/// One task may receive while others send. The object must not be destroyed while an operation
/// waits.
///
/// Thread safety: only on the thread of its loop.
class WebSocketSession {
public:
    /// Takes a URL as `WebSocket::connect` does. Does not connect yet.
    explicit WebSocketSession(std::string url, SessionOptions options = {});
    WebSocketSession(const WebSocketSession&) = delete;
    WebSocketSession& operator=(const WebSocketSession&) = delete;
    /// Closes the connection without a close frame.
    ~WebSocketSession();

    /// Waits until there is a connection. Optional: the other members connect too. Errors: the one
    /// that has ended the session, `Error::closed` after `close`, `operation_canceled`.
    [[nodiscard]] Task<Result<>> connect();

    /// Waits for a message, over as many connections as it takes. The message is valid until the
    /// next call. Errors: as `connect`, and `device_or_resource_busy` if another task receives. A
    /// cancelled receive loses no message.
    [[nodiscard]] Task<Result<Message>> receive();

    /// Sends a message on the present connection, or on the next one if there is none. Errors: as
    /// `connect`, and those of a connection that is lost while it sends: the message may then have
    /// arrived or not, and is not sent again.
    [[nodiscard]] Task<Result<>> send_text(std::string text);
    /// The same with a binary message. The bytes must live until the task has ended.
    [[nodiscard]] Task<Result<>> send_binary(Bytes payload);

    /// Sends the text `message` now, if there is a connection, and on each new connection before
    /// any other message of the program. Subscriptions are sent in the order of the calls. The
    /// program chooses `name`; a subscription of the same name is replaced. Errors:
    /// `operation_canceled`, after which the subscription is kept all the same.
    [[nodiscard]] Task<Result<>> subscribe(std::string name, std::string message);
    /// Removes a subscription. Sends `message` if it is not empty and there is a connection.
    /// Returns false if there is no subscription of this name.
    [[nodiscard]] Task<Result<bool>> unsubscribe(std::string_view name, std::string message = {});

    /// Ends the session: closes the connection, and all calls that wait return `Error::closed`.
    /// Errors: those of `WebSocket::close`.
    [[nodiscard]] Task<Result<>> close(std::uint16_t code = close_code::normal);

    [[nodiscard]] bool connected() const noexcept { return current_ != nullptr; }
    /// How many connections there were, including the present one.
    [[nodiscard]] std::uint64_t connections() const noexcept { return connections_; }

private:
    using Shared = std::shared_ptr<WebSocket>; // of those who use it when it is replaced
    struct Subscription {
        std::string name;
        std::string message;
        std::uint64_t sent = 0; ///< the last attempt that has sent it
    };

    [[nodiscard]] Task<Result<Shared>> present();
    [[nodiscard]] Task<Result<Shared>> open();
    [[nodiscard]] Task<Result<>> wait_before_attempt();
    [[nodiscard]] Task<Result<Shared>> attempt();
    [[nodiscard]] Task<Result<>> prepare(WebSocket& socket);
    [[nodiscard]] Task<Result<>> send(Message::Kind kind, Bytes payload);
    [[nodiscard]] bool is_final(std::error_code error, std::uint16_t code) const noexcept;
    /// Returns whether the session goes on.
    bool lose(const Shared& socket, std::error_code error);
    void report(std::error_code error) const noexcept;
    void end(std::error_code error) noexcept;

    std::string url_;
    SessionOptions options_;
    Backoff backoff_;
    std::minstd_rand random_;
    std::vector<Subscription> subscriptions_;
    Shared current_;
    Shared delivered_; ///< whose message the program has
    io::MonotonicTime connected_at_ = 0;
    std::uint64_t connections_ = 0;
    std::uint64_t attempts_ = 0;
    int status_ = 0;     ///< with which the last attempt was refused
    bool waits_ = false; ///< before the next attempt
    bool receiving_ = false;
    std::error_code end_;
    sync::Event ended_;
    penstock::detail::LocalMutex connecting_;
};

} // namespace penstock::ws
