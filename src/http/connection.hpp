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

#include "http/server_state.hpp"

namespace penstock::http::detail {

/// One connection of a server: reads requests, calls their handlers one after the other, and writes
/// the responses in that order.
class Connection final : public penstock::detail::AcceptLoop::Endable,
                         public io::ListHook<Connection> {
public:
    Connection(ServerState& server, AnyStream stream);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection();

    /// Until the connection ends, for whatever reason.
    [[nodiscard]] Task<void> serve();

    [[nodiscard]] OpenConnection describe();

    // What an upgrade takes over.
    [[nodiscard]] AnyStream& stream() noexcept { return stream_; }
    [[nodiscard]] AnyStream take_stream() noexcept;
    /// The head as it was received.
    [[nodiscard]] std::string_view head_text() const noexcept { return head_text_; }
    /// What was received after the head and not used yet.
    [[nodiscard]] std::string_view surplus() const noexcept { return rest_; }
    void use_surplus(std::size_t size) noexcept;
    [[nodiscard]] sync::Event& stopping() const noexcept { return server_.accept_loop.stopped(); }

    // The request.
    [[nodiscard]] const RequestHead& head() const noexcept { return head_; }
    [[nodiscard]] const codec::http::Target& target() const noexcept { return target_; }
    [[nodiscard]] const Router::Match& match() const noexcept { return match_; }
    [[nodiscard]] Task<Result<Bytes>> receive_body(std::size_t most);
    [[nodiscard]] Fields trailers() const noexcept {
        return body_done_ && body_ ? body_->trailers() : Fields();
    }

    // The response.
    [[nodiscard]] bool response_started() const noexcept { return framing_ != Framing::undecided; }
    void set_body(std::string_view text) { body_text_.assign(text); }
    void set_body(std::string&& text) noexcept { body_text_ = std::move(text); }
    void announce(std::uint64_t size) noexcept { announced_ = size; }
    [[nodiscard]] Task<Result<>> write_body(Bytes part);
    [[nodiscard]] Task<Result<>> write_file(fs::File& file, std::uint64_t offset,
                                            std::uint64_t size);

private:
    /// What the connection waits for, and so what the end of the deadline means.
    enum class Phase : std::uint8_t { idle, head, handling };
    /// How the client finds the end of the response's body.
    enum class Framing : std::uint8_t { undecided, none, length, chunked, until_close };

    /// While it waits for a request, for a graceful shutdown and in favour of a new connection.
    void end() noexcept override;

    [[nodiscard]] Task<Result<>> run();
    [[nodiscard]] Task<void> say_goodbye(Result<> ended);
    [[nodiscard]] codec::http::Progress parse_head();
    void adopt_head(std::string_view text, std::size_t shared);
    void begin_request();
    /// The route's handler, or null after it has prepared a response.
    [[nodiscard]] const Handler* choose_handler();
    [[nodiscard]] bool find_route(std::string_view method, bool upgrade);
    void answer(Status status);
    [[nodiscard]] Task<Result<>> take_over(const Handler& handler);
    [[nodiscard]] Task<Result<>> finish(Result<> handled, std::exception_ptr thrown);
    [[nodiscard]] bool answer_failure(std::error_code error, const std::exception_ptr& thrown);
    void report(std::error_code error, const std::exception_ptr& thrown,
                ServerFailure::Level level = ServerFailure::Level::failure) const noexcept;
    [[nodiscard]] Task<Result<>> refuse(Status status);
    [[nodiscard]] Task<Result<>> discard_body();
    [[nodiscard]] Task<Result<>> linger();

    [[nodiscard]] Task<Result<>> fill();
    [[nodiscard]] bool flush_at_once() noexcept;
    [[nodiscard]] Task<Result<>> flush();
    [[nodiscard]] Task<Result<>> send(Bytes head, Bytes body, Bytes tail = {});
    [[nodiscard]] Task<Result<>> until_continue_is_sent();

    void reset_response();
    void start_body();
    void append_whole_response();
    void append_head();
    [[nodiscard]] bool status_has_body() const noexcept;
    [[nodiscard]] bool answers_head() const noexcept { return head_.method == "HEAD"; }
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

    [[nodiscard]] Result<net::Endpoint> peer() noexcept;
    void begin_count() noexcept;
    void count_response() noexcept;
    void log_response(int status) noexcept;
    void make_error_page();

    static constexpr io::MonotonicTime never = INT64_MAX;
    /// Memory of a buffer beyond this is freed between two requests.
    static constexpr std::size_t kept_memory = std::size_t{16} * 1024;
    /// A body up to this size is copied behind the head. Two parts of a message cost the kernel
    /// more than the copy.
    static constexpr std::size_t small_body = std::size_t{16} * 1024;
    /// How much is sent in one operation, and under one deadline by a stream without a socket.
    static constexpr std::size_t part_size = std::size_t{64} * 1024;

    ServerState& server_;
    AnyStream stream_;
    net::StreamSocket* socket_;
    bool limits_itself_ = false; ///< the socket at its bottom ends a write that waits too long

    // For those who watch.
    std::chrono::system_clock::time_point since_ = std::chrono::system_clock::now();
    std::uint64_t requests_ = 0;
    Result<net::Endpoint> upgraded_peer_ = failure(std::errc::not_connected);
    bool upgraded_ = false;
    bool counting_ = false; ///< a request is in progress, for the metrics and the access log
    io::MonotonicTime begun_ = 0;

    // Input: a chunk, of which `rest_` is not used yet.
    Chunk chunk_;
    std::unique_ptr<std::byte[]> room_; ///< instead of a chunk, if the stream is no socket
    std::string_view received_;
    std::string_view rest_;

    // Head.
    codec::http::RequestParser parser_;
    std::string head_text_;
    std::vector<Field> fields_;
    RequestHead head_;
    codec::http::Target target_;
    Router::Match match_;
    Request request_;

    // Body.
    std::optional<codec::http::BodyDecoder> body_;
    bool body_done_ = false;
    bool continue_due_ = false;
    /// Held while "100 Continue" is sent: another task of the handler may begin the response.
    penstock::detail::LocalMutex continuing_;
    std::error_code body_error_;
    std::uint64_t body_size_ = 0; ///< of what was received
    std::uint64_t body_limit_ = 0;
    std::chrono::nanoseconds body_waited_{};
    std::string trailer_text_;

    // Response.
    Response response_;
    std::string out_; ///< what is to be sent next
    std::string body_text_;
    std::optional<std::uint64_t> announced_;
    std::uint64_t body_left_ = 0;
    std::uint64_t body_sent_ = 0;
    Framing framing_ = Framing::undecided;
    bool keep_alive_ = true;
    bool linger_ = false;
    std::error_code stream_error_;

    // Time.
    Phase phase_ = Phase::idle;
    Deadline* deadline_ = nullptr;
    io::MonotonicTime reading_until_ = never;
    io::MonotonicTime writing_until_ = never;
};

} // namespace penstock::http::detail
