#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/detail/moved_from.hpp>
#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>
#include <penstock/stream/encryption.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/task.hpp>
#include <penstock/tls/context.hpp>
#include <penstock/tls/detail/engine.hpp>
#include <penstock/tls/detail/plaintext.hpp>
#include <penstock/tls/errors.hpp>

namespace penstock::tls {

/// An encrypted stream over another one: TLS 1.2 and 1.3 by OpenSSL.
///
///     const tls::Context context = co_await unwrap(tls::Context::client());
///     net::TcpStream tcp = co_await unwrap(net::TcpStream::connect("example.org", 443));
///     auto stream = co_await unwrap(
///         tls::Stream<net::TcpStream>::connect(std::move(tcp), context, "example.org"));
///     co_await unwrap(stream.write_all(request));
///
/// A stream for `BufReader`, `BufWriter`, `copy` and the like. `S` is any stream, or a reference to
/// one that outlives this object.
///
/// One task may read while another one writes. A second reader or writer gets
/// `device_or_resource_busy`. The object must not be moved while an operation waits. Operations of
/// a moved-from object return `bad_file_descriptor`; `version` and the other properties of its
/// connection terminate the program with a message. While a read waits over a `TcpStream` or
/// `UnixStream`, the connection holds no buffer.
///
/// Cancellation: a cancelled read has consumed nothing. A cancelled `write_all` may have sent a
/// part. Over a `TcpStream` or `UnixStream` the connection stays usable: the next write first sends
/// the rest of what was encrypted. Over another stream it is unknown how much was sent, so later
/// writes fail with `Error::broken`; reading continues. A cancelled handshake cannot be continued.
///
/// A read never waits for room to send. It sends an alert over a `TcpStream` or `UnixStream` if
/// there is room. Otherwise the next write sends the alert. The same holds for the answer to the
/// peer's KeyUpdate (RFC 8446, section 4.6.3).
///
/// Thread safety: one thread at a time, and over a socket the thread of its loop.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
class Stream {
public:
    /// Makes the handshake of a client. `server_name` is the host name or address that the
    /// certificate must contain. A host name is sent to the server (SNI, RFC 6066). An earlier
    /// session with the same name is resumed.
    ///
    /// Errors: those of the stream, a certificate that is refused (`certificate_category`), other
    /// failures of the handshake (`openssl_category`), `Error::truncated`,
    /// `Error::no_certificate_name`. There is no time limit: use `timeout`.
    [[nodiscard]] static Task<Result<Stream>> connect(S stream, Context context,
                                                      std::string server_name) {
        return begin(std::forward<S>(stream), std::move(context), detail::Engine::Side::client,
                     std::move(server_name));
    }

    /// Makes the handshake of a server. Errors: as `connect`. Limit its time with `timeout`: a
    /// client that sends nothing would hold the connection forever. The handshake ends when the
    /// session tickets, about 500 bytes, are written. Over a stream in memory with less room, it
    /// waits until the client reads.
    [[nodiscard]] static Task<Result<Stream>> accept(S stream, Context context) {
        return begin(std::forward<S>(stream), std::move(context), detail::Engine::Side::server, {});
    }

    /// Waits for data and returns the number of bytes read, at most `into.size()`. 0 is the end of
    /// the stream: the peer has sent close_notify. Errors: those of the stream and of OpenSSL, and
    /// `Error::truncated` if the connection ends without close_notify, which an attacker can cause
    /// (RFC 8446, section 6.1).
    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into) {
        return take<std::size_t>(into);
    }

    /// As `read`, into a borrowed buffer. An empty chunk is the end of the stream. Cheaper than
    /// `read` for servers with many connections, because a waiting connection holds no buffer.
    [[nodiscard]] Task<Result<Chunk>> receive() { return take<Chunk>({}); }

    /// Encrypts and writes all parts, in order: `write_all(head, body)`. Small parts share a
    /// record.
    template <typename... Parts>
        requires(sizeof...(Parts) > 0 && (std::convertible_to<const Parts&, Bytes> && ...))
    [[nodiscard]] Task<Result<>> write_all(const Parts&... parts) {
        return write_parts(std::array<Bytes, sizeof...(Parts)>{Bytes(parts)...});
    }

    /// Ends the write side: sends close_notify (RFC 8446, section 6.1), so that the peer can tell
    /// the end of the stream from a cut connection. Reading continues. Later writes fail with
    /// `broken_pipe`. The stream below stays open: close it when the peer has sent close_notify, or
    /// at once. Errors: those of `write_all`.
    [[nodiscard]] Task<Result<>> shutdown() {
        if (!state_) { // moved from
            co_return failure(std::errc::bad_file_descriptor);
        }
        const Turn turn(state_->writing);
        if (const std::error_code refused = refusal(turn, co_await Budget())) {
            co_return failure(refused);
        }
        while (!state_->engine->has_shut_down()) {
            const detail::Step step = state_->engine->shutdown();
            if (step == detail::Step::needs_input) {
                if (const Result<> fed = co_await feed(); !fed) {
                    co_return fed;
                }
            } else if (step != detail::Step::done) {
                co_return failure(state_->engine->error());
            }
        }
        co_return co_await flush();
    }

    /// Changes the keys of both directions (KeyUpdate, RFC 8446, section 4.6.3). Section 5.5 asks
    /// for that before 2^24 records of AES-GCM are sent with one key: about 256 GiB. Errors: those
    /// of `write_all`, and `operation_not_supported` for TLS 1.2.
    [[nodiscard]] Task<Result<>> update_keys() {
        if (!state_) { // moved from
            co_return failure(std::errc::bad_file_descriptor);
        }
        const Turn turn(state_->writing);
        if (const std::error_code refused = refusal(turn, co_await Budget())) {
            co_return failure(refused);
        }
        if (state_->engine->has_shut_down()) {
            co_return failure(std::errc::broken_pipe);
        }
        if (version() != "TLSv1.3") {
            co_return failure(std::errc::operation_not_supported);
        }
        for (;;) {
            switch (state_->engine->update_keys()) {
            case detail::Step::needs_input:
                if (const Result<> fed = co_await feed(); !fed) {
                    co_return fed;
                }
                break;
            case detail::Step::done:
                co_return co_await flush();
            default:
                co_return failure(state_->engine->error());
            }
        }
    }

    /// Closes the stream below without close_notify.
    void close() noexcept
        requires requires(std::remove_reference_t<S>& stream) { stream.close(); }
    {
        stream_.close();
    }

    /// The stream below.
    [[nodiscard]] std::remove_reference_t<S>& next_layer() noexcept { return stream_; }

    /// "TLSv1.3".
    [[nodiscard]] std::string_view version() const noexcept { return engine().version(); }
    /// OpenSSL's name of the cipher suite, such as "TLS_AES_256_GCM_SHA384".
    [[nodiscard]] std::string_view cipher() const noexcept { return engine().cipher(); }
    /// The negotiated application protocol (ALPN, RFC 7301). Empty if there is none.
    [[nodiscard]] std::string_view alpn() const noexcept { return engine().alpn(); }
    /// The server name that the client has asked for (SNI, RFC 6066). Empty if there is none.
    [[nodiscard]] std::string_view server_name() const noexcept { return engine().server_name(); }
    /// Whether the handshake has resumed an earlier session.
    [[nodiscard]] bool session_resumed() const noexcept { return engine().session_resumed(); }
    /// The peer's certificate as PEM. Empty if the peer has presented none.
    [[nodiscard]] std::optional<std::string> peer_certificate() const {
        return engine().peer_certificate();
    }
    /// The identity of the peer, if its certificate was verified and has not expired since. Empty
    /// if the peer was not asked for a certificate, or has presented none. Throws `std::bad_alloc`.
    [[nodiscard]] std::optional<VerifiedPeer> verified_peer() const {
        return engine().verified_peer();
    }
    /// All that the handshake has negotiated.
    [[nodiscard]] Encryption encryption() const noexcept {
        return {.version = version(),
                .cipher = cipher(),
                .alpn = alpn(),
                .server_name = server_name(),
                .session_resumed = session_resumed()};
    }

private:
    using Lower = std::remove_reference_t<S>;
    using Budget = penstock::detail::BudgetOperation;

    /// Whether the stream below lends a buffer when data arrives.
    static constexpr bool lends = requires(Lower& stream) {
        requires std::same_as<Awaited<decltype(stream.receive())>, Result<Chunk>>;
    };
    /// Whether the stream below writes a part without waiting, and a cancelled write nothing.
    static constexpr bool counts = requires(Lower& stream, Bytes from) {
        { stream.try_write(from) } -> std::same_as<Result<std::size_t>>;
        requires std::same_as<Awaited<decltype(stream.write(from))>, Result<std::size_t>>;
    };
    /// Room for what is read from a stream that lends no buffers.
    struct Room {
        std::unique_ptr<std::byte[]> bytes;
    };
    using Input = std::conditional_t<lends, Chunk, Room>;

    /// The most bytes of a record with head and padding (RFC 8446, section 5.2).
    static constexpr std::size_t record_size = detail::record_content + 256 + 5;

    /// What does not move with the stream.
    struct State {
        std::unique_ptr<detail::Engine> engine;
        Input input{};                   ///< of which the engine still needs a part
        std::vector<std::byte> unsent{}; ///< output that comes before that of the engine
        std::size_t sent = 0;            ///< of it
        sync::Event fed{};
        bool feeding = false;     ///< a task waits for input
        bool fed_awaited = false; ///< another one waits for that
        bool reading = false;
        bool writing = false;
        bool write_broken = false;
    };

    /// The only reader or writer.
    class Turn {
    public:
        explicit Turn(bool& taken) noexcept
            : taken_(std::exchange(taken, true) ? nullptr : &taken) {}
        ~Turn() {
            if (taken_ != nullptr) {
                *taken_ = false;
            }
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        [[nodiscard]] explicit operator bool() const noexcept { return taken_ != nullptr; }

    private:
        bool* taken_;
    };

    [[nodiscard]] const detail::Engine& engine() const noexcept {
        if (!state_) [[unlikely]] {
            penstock::detail::report_moved_from("a tls::Stream");
        }
        return *state_->engine;
    }

    Stream(S&& stream, std::unique_ptr<State> state) noexcept
        : stream_(std::forward<S>(stream)), state_(std::move(state)) {}

    static Task<Result<Stream>> begin(S given, Context context, detail::Engine::Side side,
                                      std::string server_name) {
        S stream = std::forward<S>(given); // closed at once when this fails
        Result<std::unique_ptr<detail::Engine>> engine =
            detail::Engine::make(context, side, std::move(server_name));
        if (!engine) {
            co_return failure(engine.error());
        }
        Stream made(std::forward<S>(stream),
                    std::unique_ptr<State>(new State{.engine = std::move(*engine)}));
        if (const Result<> shaken = co_await made.handshake(); !shaken) {
            co_return failure(shaken.error());
        }
        co_return made;
    }

    Task<Result<>> handshake() {
        for (;;) {
            const detail::Step step = state_->engine->handshake();
            const Result<> flushed = co_await flush(); // in a failure: the alert
            if (step == detail::Step::failed) {
                co_return failure(state_->engine->error());
            }
            if (!flushed || step == detail::Step::done) {
                co_return flushed;
            }
            if (const Result<> fed = co_await feed(); !fed) {
                co_return fed;
            }
        }
    }

    [[nodiscard]] std::error_code refusal(const Turn& turn, bool may_go_on) const noexcept {
        if (!turn) {
            return failure(std::errc::device_or_resource_busy).error();
        }
        if (!may_go_on) {
            return failure(std::errc::operation_canceled).error();
        }
        return state_->write_broken ? make_error_code(Error::broken) : std::error_code();
    }

    template <typename T> Task<Result<T>> take(MutableBytes into) {
        constexpr bool to_chunk = std::same_as<T, Chunk>;
        const bool may_go_on = co_await Budget();
        if (!state_) { // moved from
            co_return failure(std::errc::bad_file_descriptor);
        }
        State& state = *state_;
        const Turn turn(state.reading);
        if (!turn || !may_go_on) {
            co_return failure(turn ? std::errc::operation_canceled
                                   : std::errc::device_or_resource_busy);
        }
        if (!to_chunk && into.empty()) {
            co_return T();
        }
        for (;;) {
            if (state.engine->may_decrypt()) {
                T taken{};
                if constexpr (to_chunk) {
                    if (taken.borrow().empty()) {
                        co_return failure(std::errc::not_enough_memory);
                    }
                }
                const detail::Step step = decrypt(into, taken);
                if (step == detail::Step::done || step == detail::Step::end_of_stream) {
                    co_return taken;
                }
                if (step == detail::Step::failed) {
                    co_return failure(state.engine->error());
                }
            }
            if (const Result<> fed = co_await feed(); !fed) {
                co_return failure(fed.error());
            }
        }
    }

    [[nodiscard]] detail::Step decrypt(MutableBytes into, std::size_t& count) noexcept {
        const detail::Step step = state_->engine->decrypt(into, count, outlet());
        release_input();
        return step;
    }

    /// All that has arrived, as far as it fits.
    [[nodiscard]] detail::Step decrypt(MutableBytes /*none*/, Chunk& chunk) noexcept {
        const std::span<std::byte> room = chunk.borrow();
        std::size_t filled = 0;
        detail::Step step = detail::Step::done;
        while (filled < room.size() && step == detail::Step::done) {
            std::size_t count = 0;
            step = state_->engine->decrypt(MutableBytes(room.data() + filled, room.size() - filled),
                                           count, outlet());
            filled += count;
            if (!state_->engine->may_decrypt()) {
                break;
            }
        }
        chunk.resize(filled);
        release_input();
        return filled > 0 ? detail::Step::done : step; // an end or a failure comes again
    }

    /// An idle connection holds no buffer.
    void release_input() noexcept {
        if (!state_->feeding && state_->engine->input_consumed()) {
            state_->input = {};
        }
    }

    /// Waits for bytes of the connection. The engine has consumed the last ones.
    Task<Result<>> feed() {
        State& state = *state_;
        if (state.feeding) { // what the other task receives is for this one too
            state.fed.reset();
            state.fed_awaited = true;
            co_return co_await state.fed.wait();
        }
        const Feeding feeding(state);
        Bytes received;
        if constexpr (lends) {
            Result<Chunk> chunk = co_await stream_.receive();
            if (!chunk) {
                co_return failure(chunk.error());
            }
            state.input = std::move(*chunk);
            received = Bytes(state.input.data(), state.input.size());
        } else {
            if (!state.input.bytes) {
                state.input.bytes = std::make_unique_for_overwrite<std::byte[]>(record_size);
            }
            const Result<std::size_t> count =
                co_await stream_.read(MutableBytes(state.input.bytes.get(), record_size));
            if (!count) {
                co_return failure(count.error());
            }
            received = Bytes(state.input.bytes.get(), *count);
        }
        if (received.empty()) {
            co_return failure(Error::truncated);
        }
        state.engine->set_input(received);
        co_return Result<>();
    }

    struct Feeding {
        explicit Feeding(State& of) noexcept : state(of) { state.feeding = true; }
        ~Feeding() {
            state.feeding = false;
            if (std::exchange(state.fed_awaited, false)) {
                state.fed.set();
            }
        }
        Feeding(const Feeding&) = delete;
        Feeding& operator=(const Feeding&) = delete;

        State& state;
    };

    template <std::size_t Count> Task<Result<>> write_parts(std::array<Bytes, Count> parts) {
        const bool may_go_on = co_await Budget();
        if (!state_) { // moved from
            co_return failure(std::errc::bad_file_descriptor);
        }
        const Turn turn(state_->writing);
        if (const std::error_code refused = refusal(turn, may_go_on)) {
            co_return failure(refused);
        }
        if (state_->engine->has_shut_down()) {
            co_return failure(std::errc::broken_pipe);
        }
        if (has_unsent()) { // of a cancelled write, or the answer to a message
            if (const Result<> flushed = co_await flush(); !flushed) {
                co_return flushed;
            }
        }
        detail::Plaintext plaintext(parts);
        while (!plaintext.front().empty()) {
            const Bytes content = plaintext.front();
            // Several records are sent by one system call, a single one from OpenSSL's buffer.
            const bool single = content.size() <= detail::record_content &&
                                plaintext.front_is_last() && !has_unsent();
            const detail::Step step =
                state_->engine->encrypt(content, single ? outlet() : detail::Outlet());
            release_input();
            if (step == detail::Step::needs_input) {
                if (const Result<> fed = co_await feed(); !fed) {
                    co_return fed;
                }
                continue;
            }
            if (step != detail::Step::done) {
                co_return failure(state_->engine->error());
            }
            plaintext.pop();
            if (has_unsent() && (plaintext.front_is_last() ||
                                 state_->engine->output_size() >= detail::Plaintext::most)) {
                if (const Result<> flushed = co_await flush(); !flushed) {
                    co_return flushed;
                }
            }
        }
        co_return Result<>();
    }

    [[nodiscard]] bool has_unsent() const noexcept {
        return !state_->unsent.empty() || state_->engine->output_size() > 0;
    }

    /// For the engine, unless output before that waits.
    [[nodiscard]] detail::Outlet outlet() noexcept {
        if constexpr (counts) {
            if (state_->unsent.empty()) {
                return {.stream = std::addressof(stream_),
                        .take = [](void* lower, Bytes from) noexcept {
                            return static_cast<Lower*>(lower)->try_write(from).value_or(0);
                        }};
            }
        }
        return {};
    }

    /// Sends the engine's output. For the only writer.
    Task<Result<>> flush() {
        State& state = *state_;
        while (has_unsent()) {
            if (state.unsent.empty()) {
                const Chunk output = state.engine->take_output();
                Bytes rest(output.data(), output.size());
                state.write_broken = true; // unless this comes to its end
                if constexpr (counts) {
                    const std::size_t sent = stream_.try_write(rest).value_or(0);
                    rest = Bytes(rest.data() + sent, rest.size() - sent);
                    // Waits with exactly what is left, not with the large buffer.
                    state.unsent.assign(rest.begin(), rest.end());
                } else if (const Result<> written = co_await stream_.write_all(rest); !written) {
                    co_return written;
                }
                state.write_broken = false;
            }
            if constexpr (counts) {
                while (!state.unsent.empty()) {
                    const Bytes rest(state.unsent.data() + state.sent,
                                     state.unsent.size() - state.sent);
                    const Result<std::size_t> count = co_await stream_.write(rest);
                    if (!count) {
                        co_return failure(count.error());
                    }
                    state.sent += *count;
                    if (*count == rest.size()) {
                        state.unsent = {};
                        state.sent = 0;
                    }
                }
            }
        }
        co_return Result<>();
    }

    S stream_;
    std::unique_ptr<State> state_;
};

} // namespace penstock::tls
