#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/codec/http/fields.hpp>
#include <penstock/detail/io/input_hook.hpp>
#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/detail/server/seat.hpp>
#include <penstock/detail/task/local_mutex.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/detail/backlog.hpp>
#include <penstock/ws/message.hpp>
#include <penstock/ws/options.hpp>
#include <penstock/ws/shared_message.hpp>
#include <penstock/ws/slow_reader.hpp>
#include <penstock/ws/topics.hpp>
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

/// What has happened to a message that was to be sent.
enum class Sent : std::uint8_t {
    now,     ///< the kernel has taken all of it
    waiting, ///< it is queued until the peer takes it. `on_drain` tells when the queue is empty
    dropped, ///< the queue is full (`SubscriberOptions`)
    closed,  ///< the connection is closing, and takes no message
};

/// A connection of a server whose handler is a set of functions (`Callbacks`) instead of a
/// coroutine. It has the same limits, close codes and topics as any other connection. Over TCP and
/// Unix sockets, an idle connection holds nothing but this object: a third of what a coroutine that
/// waits in `receive` holds. With permessage-deflate it keeps its windows too, and over TLS a task.
///
/// The members may be called in each function of the handler, and at any other time on the loop's
/// thread until `on_close` has returned. Then the object is freed.
///
/// Thread safety: only on the thread of its loop.
class CallbackSocket : private penstock::detail::AcceptLoop::Endable,
                       private penstock::detail::AcceptLoop::Resident,
                       private penstock::detail::InputHook,
                       private io::Timer {
public:
    CallbackSocket(const CallbackSocket&) = delete;
    CallbackSocket& operator=(const CallbackSocket&) = delete;
    virtual ~CallbackSocket();

    /// Sends a message without waiting. What the kernel does not take is copied to the queue. A
    /// text must be UTF-8, which is not checked. If the peer takes nothing for `Limits::write`, the
    /// connection ends. Throws `std::bad_alloc`.
    Sent send_text(std::string_view text) { return send_frame(Opcode::text, Bytes(text)); }
    Sent send_binary(Bytes payload) { return send_frame(Opcode::binary, payload); }
    /// The same with a received message. The last received one is sent back without a copy.
    Sent send(const Message& message) {
        return send_frame(message.is_text() ? Opcode::text : Opcode::binary,
                          Bytes(message.payload));
    }
    Sent send(const SharedMessage& message) { return send_shared(nullptr, message); }

    /// The size of the queue behind the message that is being sent, in bytes of payload.
    [[nodiscard]] std::size_t backlog() const noexcept { return backlog_ ? backlog_->bytes() : 0; }
    /// How many messages were dropped because the queue was full.
    [[nodiscard]] std::uint64_t dropped() const noexcept {
        return backlog_ ? backlog_->dropped() : 0;
    }

    /// Sends the queue, and then a close frame. Messages that arrive from now on are dropped.
    /// `on_close` is called when the peer has answered the close frame, or `Limits::close` after
    /// that frame was due. Further calls do nothing. Throws `std::invalid_argument` for a code that
    /// `WebSocket::close` refuses.
    void close(std::uint16_t code = close_code::normal, std::string reason = {});

    /// From now on the connection gets what is published to the topic. Returns false if it had
    /// subscribed before. `topics` must outlive the server. Throws `std::bad_alloc`.
    bool subscribe(Topics& topics, std::string_view topic);
    /// Ends the subscription. Messages that are queued are still sent. Returns false if the
    /// connection had not subscribed.
    bool unsubscribe(Topics& topics, std::string_view topic) noexcept;

    /// The target of the client's request, the fields of its head, and the selected subprotocol.
    /// They are valid until `on_open` returns, and empty later.
    [[nodiscard]] std::string_view target() const noexcept;
    [[nodiscard]] codec::http::Fields fields() const;
    [[nodiscard]] std::string_view subprotocol() const noexcept;

protected:
    CallbackSocket() noexcept;

private:
    friend class Callbacks;

    using Opcode = codec::websocket::Opcode;
    using Turn = penstock::detail::LocalMutex::Guard;
    class Member; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
    class Running;

    virtual void opened() = 0;
    virtual void received(const Message& message) = 0;
    virtual void drained() = 0;
    virtual void closed(std::uint16_t code, std::string_view reason) = 0;

    void open(WebSocket&& accepted, std::unique_ptr<penstock::detail::Seat> seat,
              const AcceptOptions& accept, const SubscriberOptions& slow);

    static void on_input(penstock::detail::InputHook& hook) noexcept;
    static void on_time(io::Work& work);
    void end() noexcept override;
    void leave() noexcept override;
    void leave_home() noexcept;

    template <typename Call> void call(Call function) noexcept;
    void take_input() noexcept;
    void go_on() noexcept;
    void rest() noexcept;
    void shed() noexcept;
    void wake();
    void stop_resting() noexcept;
    void start(bool silent) noexcept;
    void spawn(Task<void> task);
    void strand() noexcept;
    void fail(std::error_code error) noexcept;
    void interrupt() noexcept;
    void say_closed() noexcept;

    [[nodiscard]] AnyStream& stream() noexcept { return socket_ ? socket_->next_layer() : stream_; }
    [[nodiscard]] bool takes_nothing() const noexcept;
    [[nodiscard]] bool may_write_now() const noexcept;
    Sent send_frame(Opcode opcode, Bytes payload);
    Sent send_shared(const void* topic, const SharedMessage& message);
    Sent put_back(const void* topic, const SharedMessage& message);
    Sent write_now(std::span<const Bytes> parts);
    void start_flush(std::vector<std::byte> part);

    [[nodiscard]] Task<void> run(bool silent);
    [[nodiscard]] Task<std::error_code> converse(bool silent);
    [[nodiscard]] Task<void> say_goodbye(bool fails);
    [[nodiscard]] Task<void> flush(std::vector<std::byte> part, Turn message, Turn frame);

    /// Why and how it ends.
    struct Ending {
        std::uint16_t code = close_code::normal;
        std::string reason{};
        std::error_code failure{};   ///< of a send, or of reading
        std::exception_ptr thrown{}; ///< by the handler
    };
    [[nodiscard]] Ending* begin_ending() noexcept;

    AnyStream stream_;                  ///< while `socket_` is null
    std::unique_ptr<WebSocket> socket_; ///< null while it rests
    std::unique_ptr<penstock::detail::Seat> seat_;
    const AcceptOptions* accept_ = nullptr;   ///< of the server
    const SubscriberOptions* slow_ = nullptr; ///< of the handler
    std::unique_ptr<detail::Backlog> backlog_;
    std::unique_ptr<Member> member_;   ///< null: it has never subscribed
    std::unique_ptr<Ending> ending_;   ///< from then on it takes and gives nothing
    Canceller* receiving_ = nullptr;   ///< of `converse` while it waits
    io::MonotonicTime idle_until_ = 0; ///< `Connection::idle_until` while it rests
    std::uint8_t tasks_ = 0;
    bool pinged_ = false;         ///< `Connection::pinged` while it rests
    bool waits_for_idle_ = false; ///< and `Connection::waits_for_idle`
    bool opening_ = false;        ///< `on_open` runs
    bool busy_ = false;           ///< a function of the handler runs, or what calls it
    bool main_ = false;           ///< `run` runs
    bool flushing_ = false;       ///< `flush` runs
    bool ended_ = false;          ///< `on_close` was called
    bool stranded_ = false;       ///< no memory for a task, so it ends in the next iteration
};

/// A handler for `ws::Server::serve` and `upgrade_handler` that is a set of functions. It makes an
/// object for each connection. The object holds the program's state of that connection, and has any
/// of these functions:
///
///     struct Echo {
///         void on_open(ws::CallbackSocket& socket); // after the opening handshake
///         void on_message(ws::CallbackSocket& socket, const ws::Message& message) {
///             socket.send(message);
///         }
///         void on_drain(ws::CallbackSocket& socket); // the queue was sent
///         void on_close(ws::CallbackSocket& socket, std::uint16_t code, std::string_view reason);
///     };
///     server.serve(ws::Callbacks([] { return Echo(); }));
///
/// The functions must not block. A message is valid until `on_message` returns. `on_close` is the
/// last call for each connection that was opened, and gets what `WebSocket::close_code` and
/// `close_reason` would return. An exception ends the connection with close code 1011, and is
/// reported as a coroutine's exception is.
///
/// Choose a coroutine (`ws::Handler`) where a conversation has steps. Choose this class for very
/// many connections that are mostly idle.
///
/// Thread safety: that of its server.
class Callbacks {
public:
    /// `make()` returns the object of a connection, which need not be movable. `slow` limits the
    /// queue of messages of each connection.
    template <typename Make>
        requires std::is_class_v<std::invoke_result_t<Make&>>
    explicit Callbacks(Make make, const SubscriberOptions& slow = {})
        : maker_(std::make_shared<MakerOf<Make>>(std::move(make))) {
        maker_->slow = slow;
    }

    /// For servers: the connection owns itself from now on. `accept` must outlive it. Throws
    /// `std::bad_alloc`, and what `make` throws; the connection is closed then.
    void open(WebSocket&& accepted, std::unique_ptr<penstock::detail::Seat> seat,
              const AcceptOptions& accept) const;

private:
    struct Maker {
        Maker() = default;
        Maker(const Maker&) = delete;
        Maker& operator=(const Maker&) = delete;
        virtual ~Maker() = default;
        [[nodiscard]] virtual std::unique_ptr<CallbackSocket> make() = 0;
        SubscriberOptions slow{};
    };

    template <typename T> class SocketOf final : public CallbackSocket {
    public:
        template <typename Make> explicit SocketOf(Make& make) : handler_(make()) {}

    private:
        void opened() override {
            if constexpr (requires { handler_.on_open(*this); }) {
                handler_.on_open(*this);
            }
        }
        void received(const Message& message) override {
            if constexpr (requires { handler_.on_message(*this, message); }) {
                handler_.on_message(*this, message);
            }
        }
        void drained() override {
            if constexpr (requires { handler_.on_drain(*this); }) {
                handler_.on_drain(*this);
            }
        }
        void closed(std::uint16_t code, std::string_view reason) override {
            if constexpr (requires { handler_.on_close(*this, code, reason); }) {
                handler_.on_close(*this, code, reason);
            }
        }

        [[no_unique_address]] T handler_;
    };

    template <typename Make> struct MakerOf final : Maker {
        explicit MakerOf(Make&& given) : make_handler(std::move(given)) {}
        [[nodiscard]] std::unique_ptr<CallbackSocket> make() override {
            return std::make_unique<SocketOf<std::invoke_result_t<Make&>>>(make_handler);
        }

        Make make_handler;
    };

    std::shared_ptr<Maker> maker_;
};

} // namespace penstock::ws
