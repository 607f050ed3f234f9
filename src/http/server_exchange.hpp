#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/codec/http/target.hpp>
#include <penstock/detail/server/seat.hpp>
#include <penstock/http/detail/router.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/task.hpp>

#include "http/server_state.hpp"

namespace penstock::http::detail {

/// One request and its response, whatever carries them: what `Request` and `Response` are made of.
/// A `Connection` of HTTP/1.1 is one, for its requests one after the other; HTTP/2 has one for each
/// stream.
///
/// The virtual functions are those that move bytes of bodies. What every request needs has none.
class ServerExchange {
public:
    ServerExchange(const ServerExchange&) = delete;
    ServerExchange& operator=(const ServerExchange&) = delete;

    /// The stream that carries it.
    [[nodiscard]] virtual AnyStream& stream() noexcept = 0;

    // What an upgrade takes over.
    [[nodiscard]] virtual AnyStream& upgraded_stream() noexcept = 0;
    [[nodiscard]] virtual AnyStream take_stream() noexcept = 0;
    /// The head as it was received.
    [[nodiscard]] virtual std::string_view head_text() const noexcept = 0;
    /// What was received after the head and not used yet.
    [[nodiscard]] virtual std::string_view surplus() const noexcept = 0;
    virtual void use_surplus(std::size_t size) noexcept = 0;
    /// What is left of the connection for a handler that goes on without HTTP. Null if it cannot.
    [[nodiscard]] virtual std::unique_ptr<penstock::detail::Seat> leave() { return nullptr; }
    [[nodiscard]] penstock::detail::AcceptLoop& accept_loop() const noexcept {
        return server_.accept_loop;
    }
    [[nodiscard]] sync::Event& stopping() const noexcept { return server_.accept_loop.stopped(); }

    [[nodiscard]] const ServerOptions& options() const noexcept { return server_.options; }

    // The request.
    [[nodiscard]] const RequestHead& head() const noexcept { return head_; }
    [[nodiscard]] const codec::http::Target& target() const noexcept { return target_; }
    /// Who asks. A connection keeps it: the kernel forgets it when the client resets.
    [[nodiscard]] virtual Result<net::Endpoint> peer() noexcept = 0;
    [[nodiscard]] const Router::Match& match() const noexcept { return match_; }
    [[nodiscard]] virtual Task<Result<Bytes>> receive_body(std::size_t most) = 0;
    [[nodiscard]] virtual Fields trailers() const noexcept = 0;

    // The response.
    [[nodiscard]] bool response_started() const noexcept { return framing_ != Framing::undecided; }
    void set_body(std::string_view text) { body_text_.assign(text); }
    void set_body(std::string&& text) noexcept { body_text_ = std::move(text); }
    [[nodiscard]] const std::string& body_text() const noexcept { return body_text_; }
    [[nodiscard]] std::string take_body() noexcept { return std::exchange(body_text_, {}); }
    void announce(std::uint64_t size) noexcept { announced_ = size; }
    [[nodiscard]] std::optional<std::uint64_t> announced() const noexcept { return announced_; }
    [[nodiscard]] std::optional<std::uint64_t> take_announced() noexcept {
        return std::exchange(announced_, std::nullopt);
    }
    /// Makes it a response that tells only its status, in a line: by default its number and phrase.
    void answer(Status status, std::string_view line = {});
    [[nodiscard]] virtual Task<Result<>> write_body(Bytes part) = 0;
    [[nodiscard]] virtual Task<Result<>> write_file(fs::File& file, std::uint64_t offset,
                                                    std::uint64_t size) = 0;

    /// The code of an exception that has one.
    [[nodiscard]] static std::error_code error_of(const std::exception_ptr& thrown) noexcept;

protected:
    /// How the client finds the end of the response's body.
    enum class Framing : std::uint8_t {
        undecided, ///< the response has not begun
        none,
        length,
        chunked, ///< by the last chunk; in HTTP/2, by the end of the stream
        until_close,
    };

    explicit ServerExchange(ServerState& server) noexcept
        : server_(server), request_(*this), response_(*this) {}
    ~ServerExchange() = default;

    /// Forgets the request before. Its head and target are there.
    void begin_exchange() noexcept;
    /// The route's handler, or null after it has prepared a response.
    [[nodiscard]] const Handler* choose_handler();
    /// Prepares a response to a failure of the handler, and reports it unless it is of a kind that
    /// nobody needs to be informed of. Returns whether the response can be completed.
    [[nodiscard]] bool answer_failure(std::error_code error, const std::exception_ptr& thrown);
    void report(std::error_code error, const std::exception_ptr& thrown,
                ServerFailure::Level level = ServerFailure::Level::failure) const noexcept;
    /// Forgets the response, but for its lasting fields.
    void reset_response();
    /// Those are of one request.
    void forget_lasting_fields() noexcept;
    /// Runs the handler of an upgrade, and reports its failure.
    [[nodiscard]] Task<Result<>> run_upgrade(const Handler& handler);
    /// Whether the request asks for another protocol on a stream of HTTP/2.
    [[nodiscard]] bool asks_tunnel() const noexcept {
        return head_.upgrade && head_.major_version == 2;
    }

    [[nodiscard]] ResponseHead& response_head() noexcept { return response_.head_; }
    [[nodiscard]] bool has_body() const noexcept {
        return head_.body.kind != codec::http::BodyFraming::Kind::none;
    }
    /// Whether the status allows one (RFC 9110, sections 6.4.1 and 15.3.6).
    [[nodiscard]] bool status_has_body() const noexcept;
    [[nodiscard]] bool answers_head() const noexcept { return head_.method == "HEAD"; }

    /// Decides how the client finds the end of a body that is sent in parts, of which none was.
    void choose_framing() noexcept;
    /// The same for a body that was set as a whole. Returns whether it is to be sent: the whole of
    /// `body_text_`.
    [[nodiscard]] bool frame_whole_body() noexcept;
    /// The Content-Length, for HEAD that of GET, if there is to be one.
    [[nodiscard]] std::optional<std::uint64_t> length_to_tell() const noexcept;
    /// Counts a part of the body as sent. False, and nothing is counted, if it exceeds the length.
    [[nodiscard]] bool count_part(std::size_t size) noexcept;

    /// Whether a part of a file fits into the body. Announces it if nothing was. Before the head is
    /// made, so that the handler can still answer something else.
    [[nodiscard]] bool fits_length(std::uint64_t size) noexcept;
    /// Writes a part of a file by reading it.
    [[nodiscard]] Task<Result<>> copy_file(fs::File& file, std::uint64_t offset,
                                           std::uint64_t size);

    /// What is left of the time that waiting for all of the request's body may take.
    [[nodiscard]] std::chrono::nanoseconds body_time_left() const noexcept;

    void tell_client_gone() noexcept { request_.tell_client_gone(); }
    /// Nobody is told any more: what a handler has left to be told may have ended with it.
    void forget_context() noexcept { request_.forget_context(); }

    // For those who watch.
    /// From here on the request is in progress, unless it was.
    void begin_count() noexcept;
    void count_response() noexcept;
    /// The request ends without a complete response: the client does not get it.
    void count_abandoned() noexcept;
    /// The request becomes something that is not counted.
    void stop_counting() noexcept;

    /// How much is sent in one operation, and under one deadline by a stream without a socket.
    static constexpr std::size_t part_size = std::size_t{64} * 1024;

    ServerState& server_;
    io::MonotonicTime begun_ = 0;

    std::vector<Field> fields_;
    RequestHead head_;
    codec::http::Target target_;
    Router::Match match_;
    Request request_;

    std::error_code body_error_;
    std::uint64_t body_size_ = 0; ///< of what was received
    std::uint64_t body_limit_ = 0;
    std::chrono::nanoseconds body_waited_{};

    Response response_;
    std::string body_text_;
    std::optional<std::uint64_t> announced_;
    std::uint64_t body_left_ = 0;
    std::uint64_t body_sent_ = 0;
    Framing framing_ = Framing::undecided;
    bool counting_ = false;  ///< a request is in progress, for the metrics and the access log
    bool keep_alive_ = true; ///< of HTTP/1.1: another request may follow
    std::error_code stream_error_;

private:
    [[nodiscard]] bool find_route(std::string_view method, bool upgrade);
    [[nodiscard]] bool passes_gate();
    [[nodiscard]] bool answer_thrown(const std::exception_ptr& thrown);
    void make_error_page();
    void log_response(int status) noexcept;
};

} // namespace penstock::http::detail
