#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/http2/server_session.hpp>
#include <penstock/http/detail/router.hpp>
#include <penstock/http/open_connection.hpp>
#include <penstock/http/request.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http::detail {

class Connection;    // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
class Http2Exchange; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final
struct ServerState;  // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final

/// What a connection of a server does once its client has chosen HTTP/2 (RFC 9113): streams of a
/// session become exchanges, whose handlers run beside each other.
///
/// The task of the connection reads. A second task writes, so that a client which does not read is
/// still listened to: what it sends may be what opens its windows. Handlers that return without
/// waiting run in the reading task, the others in tasks of their own. A third task looks after
/// streams that stand still, while there are any.
///
/// A handler whose client resets its stream is cancelled. Until it has ended it counts as an open
/// stream: resets end streams, and not the work that was begun for them (CVE-2023-44487).
class Http2Connection {
public:
    /// The preface, or the beginning of it, is what the connection has received and not used.
    explicit Http2Connection(Connection& carrier);
    ~Http2Connection();
    Http2Connection(const Http2Connection&) = delete;
    Http2Connection& operator=(const Http2Connection&) = delete;

    /// Until the session or the stream ends. Cancellation: cancels all handlers.
    [[nodiscard]] Task<Result<>> serve();

    /// After `serve`: tells the client that no stream follows, and ends the stream.
    [[nodiscard]] Task<Result<>> say_goodbye();

    void describe(OpenConnection& described) const;

    // For the exchanges.
    [[nodiscard]] Connection& carrier() noexcept { return carrier_; }
    [[nodiscard]] codec::http2::ServerSession& session() noexcept { return session_; }
    /// What the streams have to send is sent in the next iteration of the loop, with what other
    /// tasks add until then.
    void send_soon() noexcept { work_.set(); }

private:
    /// What the deadline of the connection is for.
    enum class Waiting : std::uint8_t { streams, request, head };

    [[nodiscard]] Task<Result<>> read();
    [[nodiscard]] Task<void> write();
    [[nodiscard]] Task<void> watch_streams();
    [[nodiscard]] Task<void> handle(Http2Exchange& exchange, const Handler& handler);
    [[nodiscard]] Task<void> finish(Http2Exchange& exchange, Result<> handled,
                                    std::exception_ptr thrown);

    void handle_changes();
    void lose_streams() noexcept;
    void begin_stream(codec::http2::Stream& stream);
    [[nodiscard]] Task<void> take_over(Http2Exchange& exchange, const Handler& handler);
    void leave(Http2Exchange& exchange) noexcept;
    void detach(Http2Exchange& exchange) noexcept;
    void count_written() noexcept;
    [[nodiscard]] bool send_at_once();
    [[nodiscard]] bool has_output() const noexcept;
    [[nodiscard]] bool is_idle() const noexcept;
    void set_deadline();
    void free_spare() noexcept;

    Connection& carrier_;
    ServerState& server_;
    codec::http2::ServerSession session_;
    std::uint32_t most_streams_;
    Scope* scope_ = nullptr; ///< while it serves
    Canceller services_;     ///< of the tasks that are not handlers
    sync::Event work_;       ///< something may have to be written
    codec::ByteBuffer output_;
    std::size_t sent_ = 0;      ///< of `output_`
    bool writing_ = false;      ///< the writing task waits for the stream
    bool watching_ = false;     ///< the third task runs
    bool failed_ = false;       ///< the stream takes nothing any more
    std::size_t abandoned_ = 0; ///< handlers that run although their streams have ended
    Waiting waiting_ = Waiting::streams;
    std::uint64_t seen_ = 0; ///< requests when the deadline was set
    std::vector<std::unique_ptr<Http2Exchange>> exchanges_;
    std::vector<Http2Exchange*> spare_;
    std::vector<Http2Exchange*> unwritten_; ///< whose ends are in `output_`, to be counted then
};

} // namespace penstock::http::detail
