#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/codec/websocket/message_decoder.hpp>
#include <penstock/detail/io/pollable.hpp>
#include <penstock/detail/io/transport.hpp>
#include <penstock/detail/moved_from.hpp>
#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/detail/task/children.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/detail/task/local_mutex.hpp>
#include <penstock/detail/task/promise_base.hpp>
#include <penstock/detail/task/transfer.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/operation_base.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/ws/detail/connection.hpp>
#include <penstock/ws/detail/dial.hpp>
#include <penstock/ws/detail/handshake.hpp>
#include <penstock/ws/detail/input_operation.hpp>
#include <penstock/ws/detail/outgoing_frame.hpp>
#include <penstock/ws/detail/taken_over.hpp>
#include <penstock/ws/detail/url.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/message.hpp>
#include <penstock/ws/options.hpp>
#include <penstock/ws/shared_message.hpp>

namespace penstock::ws {

/// Close codes (RFC 6455, section 7.4.1).
namespace close_code = codec::websocket::close_code;

/// A WebSocket connection (RFC 6455) over a stream, with permessage-deflate (RFC 7692) if both ends
/// agree to it. `WebSocket` is the type for TCP and TLS:
///
///     Task<Result<>> greet() {
///         auto socket = co_await unwrap(ws::WebSocket::connect("ws://localhost:8080/chat"));
///         co_await unwrap(socket.send_text("hello"));
///         const ws::Message answer = co_await unwrap(socket.receive());
///         std::puts(std::string(answer.text()).c_str());
///         co_return co_await socket.close();
///     }
///
/// `ws::Server` accepts connections. `S` is any stream, or a reference to one that outlives this
/// object. Over TCP and Unix sockets, a connection that waits for a message holds no input buffer.
///
/// `receive` answers pings and the peer's close frame, and sends pings to a silent peer. So a task
/// must always receive, even in a program that needs no messages. One task may receive while others
/// send. Concurrent senders take turns in the order of their calls; messages do not interleave. The
/// object must not be moved or destroyed while an operation waits. Using a moved-from object
/// terminates the program with a message.
///
/// Back-pressure: a send waits until the stream has taken the whole message. Messages that the
/// program does not receive stay in the kernel's buffers, and then at the peer. If the peer does
/// not read, a send fails with `timed_out` (`Limits::write`), and so does a receive that has to
/// answer pings.
///
/// Cancellation: a cancelled receive loses no message. A send that is cancelled while it waits for
/// its turn has sent nothing. A send that fails, or is cancelled while it sends, may have sent a
/// part of a frame. Later sends then fail with `Error::broken`. The same holds for a receive that
/// is cancelled while its pong waits for a peer that does not read.
///
/// Thread safety: that of `S`.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
class BasicWebSocket {
public:
    class Receive;
    class Send;
    class Writer;

    /// Opens a connection by its URL, ws or wss: `WebSocket::connect("wss://example.org/feed",
    /// {.encrypt = tls::client_encryption(context)})`. With `ConnectOptions::proxy`, through an
    /// HTTP proxy, encrypted or not. Redirects are not followed.
    ///
    /// Errors: `invalid_argument` for a URL that is neither ws nor wss, or has a user name or a
    /// fragment, and for an invalid proxy; `protocol_not_supported` for wss, or an https proxy,
    /// without `ConnectOptions::encrypt`; those of `net::TcpStream::connect` and of the other
    /// `connect`; `Error::proxy_refused`; `timed_out` if all of it takes longer than
    /// `Limits::handshake`.
    [[nodiscard]] static Task<Result<BasicWebSocket>> connect(std::string url,
                                                              ConnectOptions options = {})
        requires std::same_as<S, AnyStream>
    {
        const auto limit = penstock::detail::time_limit(options.limits.handshake);
        return timeout(limit, open_url(std::move(url), std::move(options)));
    }

    /// Makes a client's opening handshake over a connected stream. `host` is the Host field: the
    /// server's name, with the port unless that is the default one. `target` is path and query,
    /// such as "/chat?room=1".
    ///
    /// Errors: those of `accept`, `Error::unexpected_extension`, and
    /// `HandshakeError::unexpected_status` for any status but 101, including a redirect.
    /// `ConnectOptions::on_refusal` gets that response.
    [[nodiscard]] static Task<Result<BasicWebSocket>>
    connect(S stream, std::string host, std::string target, ConnectOptions options = {}) {
        BasicWebSocket socket(std::forward<S>(stream), Role::client, options.limits);
        const Result<> opened =
            co_await timeout(penstock::detail::time_limit(options.limits.handshake),
                             socket.open(host, target, options));
        if (!opened) {
            co_return failure(opened.error());
        }
        co_return socket;
    }

    /// Makes a server's opening handshake. A request that is not valid, or that `options.check`
    /// refuses, gets an HTTP response with its status: 400, 405, 414, 426, 431, 505 or the one of
    /// `check`.
    ///
    /// Errors: those of the stream, `HandshakeError`, `Error::invalid_http`, `Error::refused`,
    /// `Error::truncated`, `timed_out`, and `invalid_argument` for invalid fields in `options`.
    [[nodiscard]] static Task<Result<BasicWebSocket>> accept(S stream, AcceptOptions options = {}) {
        BasicWebSocket socket(std::forward<S>(stream), Role::server, options.limits);
        const Result<> opened = co_await timeout(
            penstock::detail::time_limit(options.limits.handshake), socket.open(options));
        if (!opened) {
            co_return failure(opened.error());
        }
        co_return socket;
    }

    /// Makes the opening handshake for a request that an `http::Server` has received, and takes
    /// over its connection, with the bytes that the client has sent since:
    ///
    ///     server.upgrade("/chat", "websocket", [](http::Upgrade& upgrade) -> Task<Result<>> {
    ///         auto socket = co_await unwrap(ws::WebSocket::accept(upgrade));
    ///         ...
    ///     });
    ///
    /// `upgrade_handler` of <ws/upgrade.hpp> also closes the socket as `ws::Server` does. Errors:
    /// those of the other `accept`.
    [[nodiscard]] static Task<Result<BasicWebSocket>> accept(http::Upgrade& upgrade,
                                                             AcceptOptions options = {})
        requires std::same_as<S, AnyStream>
    {
        detail::TakenOver taken = detail::take_over(upgrade);
        BasicWebSocket socket(std::move(taken.stream), Role::server, options.limits);
        socket.connection_->bytes = std::move(taken.received);
        socket.connection_->rest = socket.connection_->bytes;
        const Result<> opened = co_await timeout(
            penstock::detail::time_limit(options.limits.handshake), socket.open(options));
        if (!opened) {
            co_return failure(opened.error());
        }
        co_return socket;
    }

    /// Waits for a message, whose fragments are joined. The message is valid until the next call.
    ///
    /// Errors: `Error::closed` after the peer's close frame (`close_code()` returns its code),
    /// `Error::truncated` if the connection ended without one, `timed_out` if the peer does not
    /// answer a ping (`Limits::ping_timeout`) or is idle (`Limits::idle`), those of the stream,
    /// `device_or_resource_busy` if another task receives, `operation_in_progress` inside a message
    /// that `receive_part` has begun. `Error::protocol_violation`, `Error::invalid_payload` and
    /// `Error::message_too_big` are final: the peer got a close frame.
    [[nodiscard]] Receive receive() noexcept;

    /// Waits for a part of a message and returns what has arrived. For messages that are too large
    /// to be stored: `Limits::streamed_message` limits them, not `Limits::message`.
    ///
    /// Errors: those of `receive`; `operation_in_progress` inside a message that a cancelled
    /// `receive` has begun.
    [[nodiscard]] Task<Result<MessagePart>> receive_part();

    /// Sends a text message. The text must be UTF-8, which is not checked. It must live until the
    /// operation has ended. `co_await socket.send_text(text)` guarantees that.
    ///
    /// Errors: those of the stream, `Error::closed` after a close frame of either side,
    /// `Error::broken`.
    [[nodiscard]] Send send_text(std::string_view text) noexcept;

    /// Sends a binary message. Lifetime and errors: as `send_text`.
    [[nodiscard]] Send send_binary(Bytes payload) noexcept;

    /// Sends a message of the same kind as a received one. A server sends the last received message
    /// back without a copy.
    [[nodiscard]] Send send(const Message& message) noexcept;

    /// Sends a message that other connections get too. A server does not encode it again. It waits
    /// for its turn like any other. Errors: as `send_text`.
    [[nodiscard]] Task<Result<>> send(SharedMessage message);

    /// Begins a message that is sent in parts, and takes the turn to send. Other messages wait
    /// until the writer is finished or destroyed; pings, pongs and close frames do not. Errors: as
    /// `send_text`.
    [[nodiscard]] Task<Result<Writer>> begin_text() { return begin(Opcode::text); }
    [[nodiscard]] Task<Result<Writer>> begin_binary() { return begin(Opcode::binary); }

    /// Sends a ping. `receive` takes the pong as a sign of life and drops it. Errors: as
    /// `send_text`, and `message_size` for more than 125 bytes.
    [[nodiscard]] Task<Result<>> ping(Bytes payload = {}) {
        if (payload.size() > codec::websocket::maximum_control_payload) {
            co_return failure(std::errc::message_size);
        }
        const Result<Turn> turn = co_await connection_->frames.lock();
        if (!turn) {
            co_return failure(turn.error());
        }
        if (const std::error_code refused = connection_->refusal()) {
            co_return failure(refused);
        }
        co_return co_await write(connection_->control_frame(Opcode::ping, payload));
    }

    /// Sends a close frame and waits for the peer's. Messages that arrive before that are dropped.
    /// If another task receives, that task gets the peer's close frame and all messages before it,
    /// and this call does not wait. The close frame is sent before the rest of a message that a
    /// `Writer` has begun.
    ///
    /// After a violation by the peer the close frame has already been sent. This call then drops
    /// input until the connection ends, so that the peer can read that frame.
    ///
    /// `code` is 1000 to 1003, 1007 to 1014, 3000 to 4999, or `close_code::none` to send none. A
    /// reason is cut to 123 bytes. The stream stays open: destroying the object closes it.
    ///
    /// Errors: `invalid_argument` for another code, those of the stream, `Error::broken`,
    /// `Error::truncated` if the connection ends without an answer, and `timed_out` after
    /// `Limits::close`, counted from the first `close` or `begin_close`.
    ///
    /// Cancellation: the program may receive again. `receive_part` never continues a message of
    /// which `close` has dropped a part: it returns the first part of a later message.
    [[nodiscard]] Task<Result<>> close(std::uint16_t code = close_code::normal,
                                       std::string reason = {}) {
        if (code != close_code::none && !codec::websocket::may_be_sent(code)) {
            co_return failure(std::errc::invalid_argument);
        }
        co_return co_await penstock::detail::run_until_deadline(connection_->close_deadline(),
                                                                close_and_wait(code, reason));
    }

    /// Sends a close frame and does not wait for the peer's. `receive` returns the messages before
    /// that one, and then `Error::closed`. Errors: those of `close`.
    [[nodiscard]] Task<Result<>> begin_close(std::uint16_t code = close_code::normal,
                                             std::string reason = {}) {
        if (code != close_code::none && !codec::websocket::may_be_sent(code)) {
            co_return failure(std::errc::invalid_argument);
        }
        const codec::websocket::ClosePayload payload(code, reason);
        co_return co_await penstock::detail::run_until_deadline(connection_->close_deadline(),
                                                                send_close(Bytes(payload.bytes())));
    }

    /// The peer's close code: 1005 if its close frame had none, 1006 if the connection ended
    /// without a close frame, 0 before that.
    [[nodiscard]] std::uint16_t close_code() const noexcept { return connection_->peer_code; }
    /// The reason in the peer's close frame. Empty if there is none.
    [[nodiscard]] std::string_view close_reason() const noexcept {
        return connection_->peer_reason ? std::string_view(*connection_->peer_reason)
                                        : std::string_view();
    }

    /// For a server: the target of the request, such as "/chat?room=1". Empty for a client. Valid
    /// as long as this object, or until `forget_head`.
    [[nodiscard]] std::string_view target() const noexcept {
        detail::Opening* const opening = this->opening();
        return opening != nullptr ? opening->target : std::string_view();
    }
    /// The fields of the peer's head. Valid as long as this object, or until `forget_head`. The
    /// first call parses them. Throws `std::bad_alloc`.
    [[nodiscard]] codec::http::Fields fields() const {
        detail::Opening* const opening = this->opening();
        return opening != nullptr ? opening->fields() : codec::http::Fields();
    }
    /// Frees the peer's head: a browser's has about 500 bytes. From then on `target` and `fields`
    /// are empty, and views that they have returned are invalid. Only the program can say when that
    /// is. To free it in a wait before which nobody had asked was tried: whether there is a wait
    /// depends on when the bytes of a message arrive, so a later question was answered at times.
    void forget_head() noexcept {
        if (detail::Opening* const opening = this->opening(); opening != nullptr) {
            if (opening->subprotocol.empty() && !opening->compression) {
                opening_.reset();
            } else {
                opening->forget();
            }
        }
    }
    /// The selected subprotocol. Empty if there is none.
    [[nodiscard]] std::string_view subprotocol() const noexcept {
        const detail::Opening* const opening = this->opening();
        return opening != nullptr ? std::string_view(opening->subprotocol) : std::string_view();
    }
    /// The negotiated parameters of permessage-deflate. Empty without compression.
    [[nodiscard]] const std::optional<DeflateParameters>& compression() const noexcept {
        static constexpr std::optional<DeflateParameters> none;
        const detail::Opening* const opening = this->opening();
        return opening != nullptr ? opening->compression : none;
    }

    /// The stream below.
    [[nodiscard]] std::remove_reference_t<S>& next_layer() noexcept { return stream_; }

private:
    friend class CallbackSocket;

    using Lower = std::remove_reference_t<S>;
    using Connection = detail::Connection;
    using Opcode = codec::websocket::Opcode;
    using Role = codec::websocket::Role;
    using Event = codec::websocket::MessageDecoder::Event;
    using Turn = penstock::detail::LocalMutex::Guard;

    /// Whether a stream lends a buffer when data arrives, and sends several parts in one call,
    /// without a task.
    template <typename T>
    static constexpr bool is_socket =
        requires(T& stream, Bytes part, std::span<const Bytes> parts) {
            requires std::derived_from<decltype(stream.receive()),
                                       penstock::detail::ReadinessOperation>;
            requires std::same_as<Awaited<decltype(stream.receive())>, Result<Chunk>>;
            stream.write_all(part, part);
            requires Operation<decltype(stream.write_all(parts))>;
        };
    using Socket = std::conditional_t<is_socket<Lower>, Lower, net::TcpStream>;
    using SocketReceive = decltype(std::declval<Socket&>().receive());
    static constexpr std::size_t input_size = std::size_t{16} * 1024;

    class Receiving {
    public:
        explicit Receiving(bool& flag) noexcept : flag_(flag) { flag_ = true; }
        ~Receiving() { flag_ = false; }
        Receiving(const Receiving&) = delete;
        Receiving& operator=(const Receiving&) = delete;

    private:
        bool& flag_;
    };

    /// Another time limit of writes while it lives. The task must hold the `frames` lock.
    class WriteTime {
    public:
        WriteTime(BasicWebSocket& socket, std::chrono::milliseconds time) noexcept
            : socket_(socket), usual_(socket.connection_->write_time) {
            set(time);
        }
        ~WriteTime() { set(usual_); }
        WriteTime(const WriteTime&) = delete;
        WriteTime& operator=(const WriteTime&) = delete;

    private:
        void set(std::chrono::milliseconds time) noexcept {
            if (time != socket_.connection_->write_time) {
                socket_.limit_writes(time);
            }
        }

        BasicWebSocket& socket_;
        std::chrono::milliseconds usual_;
    };

    BasicWebSocket(S&& stream, Role role, const Limits& limits)
        : stream_(std::forward<S>(stream)),
          connection_("a ws::WebSocket", std::make_unique<Connection>(role, limits)) {
        limit_writes(limits.write);
    }

    /// The stream below, if it can be used without a task for each operation.
    [[nodiscard]] Socket* socket() noexcept {
        if constexpr (is_socket<Lower>) {
            return &stream_;
        } else if constexpr (std::same_as<Lower, AnyStream>) {
            return stream_.tcp();
        } else {
            return nullptr;
        }
    }

    /// By the socket, or else by `write_in_parts`.
    void limit_writes(std::chrono::milliseconds time) noexcept {
        const Limits& limits = *connection_->limits;
        connection_->write_time = time;
        if (net::StreamSocket* const transport = penstock::detail::transport_of(stream_)) {
            transport->limit_writes({.time = time,
                                     .rate = limits.write_rate,
                                     .maximum_backlog = limits.maximum_backlog});
        }
    }

    /// Null once the head was freed and nothing else is known of it. Reports a moved-from object.
    [[nodiscard]] detail::Opening* opening() const noexcept {
        (void)*connection_;
        return opening_.get();
    }

    /// 0 means no limit.
    [[nodiscard]] std::chrono::milliseconds patience() noexcept {
        Connection& connection = *connection_;
        const Limits& limits = *connection.limits;
        const auto limit = connection.pinged ? limits.ping_timeout : limits.ping_interval;
        return limits.idle.count() > 0 ? connection.until_idle(limit) : limit;
    }

    // web_socket_opening.hpp
    static Task<Result<BasicWebSocket>> open_url(std::string url, ConnectOptions options);
    Task<Result<>> open(const AcceptOptions& options);
    Task<Result<>> open(const std::string& host, const std::string& target,
                        const ConnectOptions& options);
    Task<Result<>> read_head(auto& handshake);
    [[nodiscard]] Result<> finish(auto& handshake, Result<> transferred,
                                  const std::optional<Compression>& compression);

    [[nodiscard]] static Message message_of(const Event& event) noexcept {
        return {.kind = event.kind == codec::websocket::MessageDecoder::Kind::text
                            ? Message::Kind::text
                            : Message::Kind::binary,
                .payload = event.payload};
    }

    // web_socket_receiving.hpp
    /// What a receive that goes on in a task begins with.
    enum class Rest : std::uint8_t {
        input,    ///< that is there
        silence,  ///< for all of the time
        controls, ///< which wait to be sent
    };
    Task<Result<Message>> receive_later(Receive& caller);
    Task<Result<Message>> receive_rest(Rest first);
    Task<Result<Message>> receive_behind(detail::PartOfControl rest, Turn turn);
    Task<Result<>> feed(bool keeps_alive);
    [[nodiscard]] Result<> take(Result<Chunk> received);
    [[nodiscard]] Result<> take(Result<std::size_t> received);
    [[nodiscard]] Result<> took(std::size_t size);
    [[nodiscard]] Result<> judge_control(const Result<>& sent);
    void end_by_time();
    Task<Result<>> on_silence();
    Task<Result<>> handle(Event event);

    // web_socket_sending.hpp
    Task<Result<>> send_message(Opcode opcode, Bytes payload);
    Task<Result<>> finish_send(Bytes rest);
    Task<Result<>> finish_send(detail::OutgoingFrame frame, std::size_t written);
    Task<Result<Writer>> begin(Opcode opcode);
    Task<Result<>> send_fragment(Opcode opcode, Bytes payload, Connection::Fragment fragment);
    Task<Result<>> write(detail::OutgoingFrame frame);
    Task<Result<>> write_in_parts(Bytes head, Bytes body);
    Task<Result<>> write_frame(Bytes frame);
    Task<Result<>> write_control(Opcode opcode, const detail::PendingControl& control,
                                 bool receives);
    Task<Result<>> write_pending(bool receives = false);
    [[nodiscard]] std::chrono::milliseconds control_time() const noexcept;
    Task<Result<>> send_pending();
    Task<void> answer_close(std::uint16_t code, std::string_view reason);
    Task<Result<>> send_close(Bytes payload);
    Task<Result<>> close_and_wait(std::uint16_t code, std::string_view reason);
    Task<void> end_stream();
    Task<void> shut_down();

    S stream_;
    penstock::detail::MovableState<Connection> connection_;
    std::unique_ptr<detail::Opening> opening_;
};

/// A message that is sent in parts, each as a frame (RFC 6455, section 5.4). The writer holds the
/// turn to send. It must not outlive its socket.
///
/// Destroying it before `finish` breaks the connection if a part was sent: later sends fail with
/// `Error::broken`, because the message cannot be ended.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
class BasicWebSocket<S>::Writer {
public:
    Writer(Writer&& other) noexcept
        : socket_(std::exchange(other.socket_, nullptr)), turn_(std::move(other.turn_)),
          opcode_(other.opcode_), begun_(other.begun_) {}
    Writer& operator=(Writer&&) = delete;
    ~Writer() {
        if (socket_ != nullptr && begun_) {
            socket_->connection_->write_broken = true;
        }
    }

    /// Sends a part. With compression, the part may be kept until there is more. Errors and
    /// cancellation: as `send_text`.
    [[nodiscard]] Task<Result<>> write(Bytes part) { return send(part, false); }

    /// Sends the last part, which may be empty, and passes the turn on. After an error, only
    /// destruction is allowed. A writer that was finished or moved from returns
    /// `bad_file_descriptor`.
    [[nodiscard]] Task<Result<>> finish(Bytes part = {}) {
        if (socket_ == nullptr) {
            co_return failure(std::errc::bad_file_descriptor);
        }
        const Result<> sent = co_await send(part, true);
        if (!sent) { // before another message has the turn
            socket_->connection_->write_broken = true;
        }
        socket_ = nullptr;
        turn_.unlock();
        co_return sent;
    }

private:
    friend class BasicWebSocket;

    Writer(BasicWebSocket& socket, Turn turn, Opcode opcode) noexcept
        : socket_(&socket), turn_(std::move(turn)), opcode_(opcode) {}

    Task<Result<>> send(Bytes part, bool last) {
        if (socket_ == nullptr) {
            return closed();
        }
        const bool first = !std::exchange(begun_, true);
        return socket_->send_fragment(opcode_, part, {.first = first, .last = last});
    }

    static Task<Result<>> closed() { co_return failure(std::errc::bad_file_descriptor); }

    BasicWebSocket* socket_; ///< null: it was finished or moved from
    Turn turn_;
    Opcode opcode_;
    bool begun_ = false;
};

/// A WebSocket over TCP or TLS.
using WebSocket = BasicWebSocket<AnyStream>;

} // namespace penstock::ws

#include <penstock/ws/detail/web_socket_opening.hpp>
#include <penstock/ws/detail/web_socket_operations.hpp>
#include <penstock/ws/detail/web_socket_receiving.hpp>
#include <penstock/ws/detail/web_socket_sending.hpp>

namespace penstock::ws {

// Compiled once, in the library.
extern template class BasicWebSocket<AnyStream>;

} // namespace penstock::ws
