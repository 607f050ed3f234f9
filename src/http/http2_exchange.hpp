#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/http2/server_session.hpp>
#include <penstock/result.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/task.hpp>

#include "http/http2_tunnel.hpp"
#include "http/server_exchange.hpp"

namespace penstock::http::detail {

class Http2Connection;

/// A request of HTTP/2 and its response. It outlives its stream if the client resets that while the
/// handler runs.
///
/// The connection owns it, and uses it for one stream after the other: `begin`, then the handler,
/// then `complete` or `finish`, then `end`. `http2_stream` is null after `lose_stream`, whatever
/// was suspended meanwhile, so each function reads it again after a wait; then receives and writes
/// fail.
///
/// Invalidated by: a part of the body, by the next receive, which also opens the client's window by
/// what was given before; the head's views and the trailers, by `end`.
///
/// Thread safety: only on the thread of its loop. One task receives and one sends at a time.
class Http2Exchange final : public ServerExchange {
public:
    Http2Exchange(Http2Connection& connection, ServerState& server) noexcept
        : ServerExchange(server), connection_(connection) {}
    ~Http2Exchange() {
        count_abandoned();
        if (tunnelled_ != nullptr) {
            tunnelled_->tunnel->lose_stream();
        }
    }
    Http2Exchange(const Http2Exchange&) = delete;
    Http2Exchange& operator=(const Http2Exchange&) = delete;

    // What an exchange is.
    [[nodiscard]] AnyStream& stream() noexcept override;
    [[nodiscard]] Result<net::Endpoint> peer() noexcept override;
    [[nodiscard]] AnyStream& upgraded_stream() noexcept override { return tunnelled_->stream; }
    [[nodiscard]] AnyStream take_stream() noexcept override {
        return std::exchange(tunnelled_->stream, AnyStream());
    }
    [[nodiscard]] std::string_view head_text() const noexcept override { return tunnelled_->head; }
    [[nodiscard]] std::string_view surplus() const noexcept override { return {}; }
    void use_surplus(std::size_t /*size*/) noexcept override {}
    [[nodiscard]] Task<Result<Bytes>> receive_body(std::size_t most) override;
    [[nodiscard]] Fields trailers() const noexcept override {
        return request_ended_ && received_.empty() ? Fields(trailers_) : Fields();
    }
    [[nodiscard]] Task<Result<>> write_body(Bytes part) override;
    [[nodiscard]] Task<Result<>> write_file(fs::File& file, std::uint64_t offset,
                                            std::uint64_t size) override;

    // For the connection.

    /// Begins with the head of a new stream. The handler, or null after it has prepared a response.
    [[nodiscard]] const Handler* begin(codec::http2::Stream& stream);
    /// Takes what has arrived.
    void take_received();
    /// The client has reset the stream, which is about to be freed. Cancels the handler, unless
    /// its route wants it to finish.
    void lose_stream() noexcept;
    /// The handler is that of an upgrade: the stream becomes a tunnel.
    void begin_tunnel();
    [[nodiscard]] Task<void> run_tunnel(const Handler& handler);
    /// The handler has ended. Whether the response is complete in the session, and is to be counted
    /// when it is sent.
    [[nodiscard]] bool begin_sending() noexcept {
        sending_ = handed_over_ && counting_;
        return sending_;
    }
    [[nodiscard]] bool is_sending() const noexcept { return sending_; }
    /// The session has made output of all.
    void leave_stream() noexcept {
        stream_->user = nullptr;
        stream_ = nullptr;
    }
    void count_sent() noexcept { count_response(); }
    /// The exchange is over: for the next one it keeps its memory, within bounds.
    void end() noexcept;

    [[nodiscard]] Request& request() noexcept { return request_; }
    [[nodiscard]] Response& response() noexcept { return response_; }
    [[nodiscard]] Canceller& canceller() noexcept {
        return *canceller_; // NOLINT(bugprone-unchecked-optional-access): made by `begin`
    }
    [[nodiscard]] codec::http2::Stream* http2_stream() const noexcept { return stream_; }

    /// The handler has ended: from here on nobody is told that the client goes.
    void end_handler() noexcept { forget_context(); }
    /// Whether a handler that has ended so leaves a response that `complete` can send.
    [[nodiscard]] bool is_simple(const Result<>& handled,
                                 const std::exception_ptr& thrown) const noexcept;
    /// Sends the response that the handler has made without sending a part.
    void complete();
    /// The same after a handler that has ended in any way.
    [[nodiscard]] Task<void> finish(Result<> handled, std::exception_ptr thrown);

private:
    /// Beyond it a body is written in parts, each when the client has taken earlier ones.
    static constexpr std::size_t whole_body = std::size_t{64} * 1024;
    /// What may wait in the session for the client's window, when another part is added.
    static constexpr std::size_t most_unsent = std::size_t{64} * 1024;
    /// Memory of a buffer beyond this is freed between two exchanges.
    static constexpr std::size_t kept_memory = std::size_t{16} * 1024;

    /// False if the head is none of a request that can be served: 400.
    [[nodiscard]] bool adopt_head(std::span<const Field> fields);
    void adopt_tunnel(std::string_view protocol);
    void keep_trailers();
    void respond(bool ends);
    void start_body();
    [[nodiscard]] Task<Result<>> until_unsent(std::size_t most);
    [[nodiscard]] Task<void> reset_behind_output();
    [[nodiscard]] Task<Result<>> receive_more();

    /// What an upgrade takes over.
    struct Tunnelled {
        std::shared_ptr<Http2Tunnel> tunnel;
        AnyStream stream;
        std::string head; ///< as HTTP/1.1 would have it
    };

    Http2Connection& connection_;
    codec::http2::Stream* stream_ = nullptr;
    std::optional<Canceller> canceller_; ///< of the handler

    // Request.
    std::string head_text_; ///< what the views of the head and the trailers are of
    std::string trailer_text_;
    std::vector<Field> trailers_;
    codec::ByteBuffer received_; ///< of the body, and not given to the handler
    codec::ByteBuffer given_;    ///< what the handler's last part is of
    std::size_t given_begin_ = 0;
    std::size_t consumable_ = 0; ///< of the window, once the handler asks for more
    bool request_ended_ = false;
    bool continue_due_ = false;
    bool late_ = false; ///< the body's time has passed, and the handler was cancelled
    sync::Event arrived_;
    sync::Event moved_;

    // Response.
    std::vector<Field> response_fields_;
    bool handed_over_ = false; ///< all of it is the session's
    bool sending_ = false;

    std::unique_ptr<Tunnelled> tunnelled_; ///< once the stream is a tunnel
};

} // namespace penstock::http::detail
