#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <penstock/codec/http/body_decoder.hpp>
#include <penstock/codec/http/request_parser.hpp>
#include <penstock/codec/http/target.hpp>
#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/detail/server/seat.hpp>
#include <penstock/detail/task/local_mutex.hpp>
#include <penstock/http/detail/router.hpp>
#include <penstock/http/open_connection.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/chunk.hpp>
#include <penstock/task/deadline.hpp>
#include <penstock/task/task.hpp>

#include "http/handler_run.hpp"
#include "http/http2_connection.hpp"
#include "http/server_exchange.hpp"
#include "http/server_state.hpp"

namespace penstock::http::detail {

/// One connection of a server. Of HTTP/1.1: reads requests, calls their handlers one after the
/// other, and writes the responses in that order.
///
/// Owns the stream and all buffers, until an upgrade takes the stream. It lives in the frame of the
/// task that serves it, and must not outlive the server's state. Only that task calls `serve`; the
/// handler's tasks may send and receive, one in each direction at a time.
///
/// Invalidated by: what a handler has received (`receive_body`), by the next receive; the head and
/// its views, by the end of the request. Until then the head is in `head_text_`, whatever the input
/// does. A connection that waits for a request keeps at most 16 KiB of each of its texts.
///
/// Thread safety: only on the thread of its loop.
class Connection final : public ServerExchange,
                         public penstock::detail::AcceptLoop::Endable,
                         public io::ListHook<Connection> {
public:
    /// What the task of an accepted connection has, which `leave` takes along.
    struct Accepted {
        penstock::detail::AcceptLoop::Home* home = nullptr; ///< null: it was not accepted here
        penstock::detail::AcceptLoop::Place* place = nullptr;
    };

    Connection(ServerState& server, AnyStream stream, Accepted accepted);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection();

    /// Until the connection ends, for whatever reason.
    [[nodiscard]] Task<void> serve();

    [[nodiscard]] Result<net::Endpoint> peer() noexcept override;
    [[nodiscard]] OpenConnection describe();
    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

    [[nodiscard]] AnyStream& stream() noexcept override { return stream_; }
    [[nodiscard]] AnyStream& upgraded_stream() noexcept override { return stream_; }
    [[nodiscard]] AnyStream take_stream() noexcept override;
    [[nodiscard]] std::string_view head_text() const noexcept override { return head_text_; }
    [[nodiscard]] std::string_view surplus() const noexcept override { return rest_; }
    void use_surplus(std::size_t size) noexcept override;
    [[nodiscard]] std::unique_ptr<penstock::detail::Seat> leave() override;

    [[nodiscard]] Task<Result<Bytes>> receive_body(std::size_t most) override;
    [[nodiscard]] Fields trailers() const noexcept override {
        return body_done_ && body_ ? body_->trailers() : Fields();
    }
    [[nodiscard]] Task<Result<>> write_body(Bytes part) override;
    [[nodiscard]] Task<Result<>> write_file(fs::File& file, std::uint64_t offset,
                                            std::uint64_t size) override;

private:
    friend class Http2Connection; // which goes on with the connection

    /// What the connection waits for, and so what the end of the deadline means.
    enum class Phase : std::uint8_t { idle, head, handling };

    /// While it waits for a request, for a graceful shutdown and in favour of a new connection.
    void end() noexcept override;

    [[nodiscard]] Task<Result<>> run();
    [[nodiscard]] Task<void> say_goodbye(Result<> ended);
    [[nodiscard]] codec::http::Progress parse_head();
    void adopt_head(std::string_view text, std::size_t shared);
    void begin_request();
    [[nodiscard]] Task<Result<>> run_handler(const Handler& handler);
    [[nodiscard]] Task<Result<>> take_over(const Handler& handler);
    [[nodiscard]] bool begins_http2() const noexcept;
    [[nodiscard]] Task<Result<>> finish(Result<> handled, std::exception_ptr thrown);
    [[nodiscard]] Task<Result<>> refuse(Status status);
    [[nodiscard]] std::uint64_t most_to_discard() const noexcept;
    [[nodiscard]] Task<Result<>> discard_body();
    [[nodiscard]] Task<Result<>> linger();

    [[nodiscard]] Task<Result<>> fill();
    [[nodiscard]] bool flush_at_once() noexcept;
    [[nodiscard]] Task<Result<>> flush();
    [[nodiscard]] Task<Result<>> send(Bytes head, Bytes body, Bytes tail = {});
    [[nodiscard]] Task<Result<>> until_continue_is_sent();

    void start_body();
    void append_whole_response();
    void append_head();
    void close_if_body_is_large() noexcept;
    [[nodiscard]] bool append_fields();
    [[nodiscard]] bool body_is_unread() const noexcept { return body_ && !body_done_; }
    void abort_on_close() noexcept;

    /// Returns the time.
    io::MonotonicTime set_reading_deadline(std::chrono::milliseconds limit);
    void set_body_deadline();
    void limit_writes() noexcept;
    void set_writing_deadline();
    void clear_reading_deadline();
    void clear_writing_deadline();
    void apply_deadlines();

    void release_memory() noexcept;

    static constexpr io::MonotonicTime never = INT64_MAX;
    /// Memory of a buffer beyond this is freed between two requests.
    static constexpr std::size_t kept_memory = std::size_t{16} * 1024;
    /// A body up to this size is copied behind the head. Two parts of a message cost the kernel
    /// more than the copy.
    static constexpr std::size_t small_body = std::size_t{16} * 1024;

    AnyStream stream_;
    net::StreamSocket* socket_;
    bool limits_itself_ = false; ///< the socket at its bottom ends a write that waits too long

    // For those who watch.
    std::chrono::system_clock::time_point since_ = std::chrono::system_clock::now();
    std::uint64_t requests_ = 0;
    Result<net::Endpoint> peer_ = failure(std::errc::not_connected);
    bool upgraded_ = false;
    bool left_ = false; ///< an `UpgradedConnection` is what it was
    std::uint64_t number_;
    Accepted accepted_;

    // Input: a chunk, of which `rest_` is not used yet.
    Chunk chunk_;
    std::unique_ptr<std::byte[]> room_; ///< instead of a chunk, if the stream is not a socket
    std::string_view received_;
    std::string_view rest_;

    // Head.
    codec::http::RequestParser parser_;
    std::string head_text_;
    HandlerRun* handler_run_ = nullptr; ///< while the task of a handler runs

    // Body.
    std::optional<codec::http::BodyDecoder> body_;
    bool body_done_ = false;
    bool continue_due_ = false;
    /// Held while "100 Continue" is sent: another task of the handler may begin the response.
    penstock::detail::LocalMutex continuing_;
    std::string trailer_text_;

    // Response.
    std::string out_; ///< what is to be sent next
    bool linger_ = false;

    std::unique_ptr<Http2Connection> http2_; ///< once the client has chosen it

    // Time.
    Phase phase_ = Phase::idle;
    Deadline* deadline_ = nullptr;
    io::MonotonicTime reading_until_ = never;
    io::MonotonicTime writing_until_ = never;
};

} // namespace penstock::http::detail
