#include "http/http2_connection.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>

#include "http/connection.hpp"
#include "http/http2_exchange.hpp"

namespace penstock::http::detail {

using codec::http2::ErrorCode;
using codec::http2::Stream;
using penstock::detail::time_limit;

namespace {

/// What is made for one write.
constexpr std::size_t most_at_once = std::size_t{64} * 1024;
/// Memory of the output that is kept between two writes.
constexpr std::size_t kept_output = std::size_t{4} * 1024;

codec::http2::Limits limits_of(const ServerState& server) {
    const ServerOptions& options = server.options;
    codec::http2::Limits limits;
    limits.websockets = server.upgrades;
    limits.streams = options.limits.streams;
    limits.head = options.limits.head;
    limits.fields = options.limits.fields;
    return limits;
}

codec::http2::ServerSession::Time now() noexcept {
    return std::chrono::nanoseconds(io::monotonic_now());
}

} // namespace

Http2Connection::Http2Connection(Connection& carrier)
    : carrier_(carrier), server_(carrier.server_), session_(limits_of(server_)),
      most_streams_(server_.options.limits.streams) {}

Http2Connection::~Http2Connection() = default;

Task<Result<>> Http2Connection::serve() {
    const Result<> ended = co_await with_scope([this](Scope& scope) -> Task<Result<>> {
        scope_ = &scope;
        scope.spawn(cancellable(services_, write()));
        const Result<> read_to_the_end = co_await read();
        lose_streams();
        services_.cancel();
        co_return read_to_the_end; // waits for handlers that are to finish
    });
    scope_ = nullptr;
    co_return ended;
}

Task<Result<>> Http2Connection::read() {
    const std::string begin =
        carrier_.head_text_.empty() ? std::string(carrier_.rest_) : std::move(carrier_.head_text_);
    carrier_.head_text_.clear();
    std::string_view input = begin;
    for (;;) {
        const bool valid = session_.receive(input, now());
        carrier_.use_surplus(carrier_.rest_.size());
        handle_changes();
        if (!send_at_once()) {
            send_soon();
        }
        if (!valid) {
            server_.report({.error = std::make_error_code(std::errc::protocol_error),
                            .level = ServerFailure::Level::notice});
            co_return Result<>();
        }
        if (session_.is_finished() && !has_output()) {
            co_return Result<>();
        }
        set_deadline();
        if (const Result<> filled = co_await carrier_.fill(); !filled) {
            co_return filled.error() == Error::truncated ? Result<>() : filled;
        }
        input = carrier_.rest_;
    }
}

Task<void> Http2Connection::write() {
    for (;;) {
        if (const Result<> woken = co_await work_.wait(); !woken) {
            co_return;
        }
        work_.reset();
        while (!send_at_once()) {
            writing_ = true;
            const Bytes rest = output_.bytes().subspan(sent_);
            Result<> written;
            if (carrier_.limits_itself_) {
                written = co_await carrier_.stream_.write_all(rest);
            } else {
                written = co_await timeout(time_limit(server_.options.timeouts.write),
                                           carrier_.stream_.write_all(rest));
            }
            writing_ = false;
            if (!written) { // also when it was cancelled: a part of a frame has left
                failed_ = true;
                carrier_.stream_.close(); // ends the reading task
                co_return;
            }
            sent_ = output_.size();
        }
        set_deadline();
        if (session_.is_finished() && !has_output()) {
            carrier_.end();
        }
    }
}

/// Makes output and sends it, as far as the kernel takes it now. Returns whether nothing is left
/// for the writing task, which goes on by itself if it is at work.
bool Http2Connection::send_at_once() {
    if (writing_ || failed_) {
        return true;
    }
    if (server_.accept_loop.stopping()) {
        session_.go_away(ErrorCode::no_error);
    }
    for (;;) {
        if (!has_output()) {
            count_written();
            output_.clear(kept_output);
            sent_ = 0;
            (void)session_.produce(output_, most_at_once); // of a failed session, its last frames
            handle_changes();
            if (output_.empty()) {
                return true;
            }
        }
        if (carrier_.socket_ == nullptr) {
            return false;
        }
        sent_ += carrier_.socket_->try_write(Bytes(output_.bytes().subspan(sent_))).value_or(0);
        if (has_output()) {
            return false;
        }
    }
}

bool Http2Connection::has_output() const noexcept {
    return sent_ < output_.size();
}

void Http2Connection::handle_changes() {
    while (Stream* stream = session_.next_change()) {
        if (stream->take_new() && !stream->is_closed()) {
            begin_stream(*stream);
        }
        auto* exchange = static_cast<Http2Exchange*>(stream->user);
        if (exchange != nullptr) {
            exchange->take_received();
        } else if (!stream->received.empty()) {
            session_.consume(*stream, stream->received.size());
            stream->received.clear(0);
        }
        if (exchange != nullptr && exchange->is_sending() && stream->response_sent()) {
            unwritten_.push_back(exchange);
            exchange->leave_stream();
            exchange = nullptr;
        }
        if (stream->is_closed()) {
            if (exchange != nullptr && exchange->is_sending()) { // the client has reset it
                detach(*exchange);
            } else if (exchange != nullptr) { // its handler has not ended
                ++abandoned_;
                exchange->lose_stream();
            }
            session_.release(*stream);
        }
    }
}

/// What was made is written: the responses that end in it are complete.
void Http2Connection::count_written() noexcept {
    for (Http2Exchange* exchange : unwritten_) {
        exchange->count_sent();
        detach(*exchange);
    }
    unwritten_.clear();
}

/// The connection is lost, or ends before its streams.
void Http2Connection::lose_streams() noexcept {
    for (const std::unique_ptr<Http2Exchange>& exchange : exchanges_) {
        if (exchange->is_sending() && exchange->http2_stream() != nullptr) {
            detach(*exchange);
        } else if (Stream* stream = exchange->http2_stream()) {
            stream->user = nullptr;
            ++abandoned_;
            exchange->lose_stream();
        }
    }
}

void Http2Connection::begin_stream(Stream& stream) {
    ++carrier_.requests_;
    if (session_.open_streams() + abandoned_ > most_streams_) {
        session_.reset(stream, ErrorCode::refused_stream);
        return;
    }
    if (spare_.empty()) {
        spare_.reserve(exchanges_.size() + 1);
        exchanges_.push_back(std::make_unique<Http2Exchange>(*this, server_));
        spare_.push_back(exchanges_.back().get());
    }
    Http2Exchange& exchange = *spare_.back();
    spare_.pop_back();
    const Handler* handler = exchange.begin(stream);
    if (handler != nullptr && handler->upgrade) {
        exchange.begin_tunnel();
        scope_->spawn(take_over(exchange, *handler));
        return;
    }
    if (handler != nullptr && !handler->function) {
        scope_->spawn(handle(exchange, *handler));
        return;
    }
    Result<> handled;
    std::exception_ptr thrown;
    if (handler != nullptr) {
        exchange.take_received();
        try {
            handled = handler->function(exchange.request(), exchange.response());
        } catch (...) {
            thrown = std::current_exception();
        }
        exchange.end_handler();
    }
    if (exchange.is_simple(handled, thrown)) {
        exchange.complete();
        leave(exchange);
    } else {
        scope_->spawn(finish(exchange, handled, std::move(thrown)));
    }
}

Task<void> Http2Connection::handle(Http2Exchange& exchange, const Handler& handler) {
    Result<> handled;
    std::exception_ptr thrown;
    try {
        handled = co_await cancellable(exchange.canceller(),
                                       handler.task(exchange.request(), exchange.response()));
    } catch (...) {
        thrown = std::current_exception();
    }
    exchange.end_handler();
    co_await finish(exchange, handled, std::move(thrown));
}

Task<void> Http2Connection::finish(Http2Exchange& exchange, Result<> handled,
                                   std::exception_ptr thrown) {
    if (exchange.is_simple(handled, thrown)) {
        exchange.complete();
    } else {
        co_await exchange.finish(handled, std::move(thrown));
    }
    if (exchange.http2_stream() == nullptr) {
        --abandoned_;
        detach(exchange);
    } else {
        leave(exchange);
    }
    send_soon();
}

Task<void> Http2Connection::take_over(Http2Exchange& exchange, const Handler& handler) {
    co_await exchange.run_tunnel(handler);
    if (exchange.http2_stream() == nullptr) {
        --abandoned_;
    }
    detach(exchange);
    send_soon();
}

/// The handler has ended. A response that is counted needs its exchange until it is sent.
void Http2Connection::leave(Http2Exchange& exchange) noexcept {
    if (!exchange.begin_sending()) {
        detach(exchange);
    }
}

/// What is left of the stream needs no exchange: its output waits in the session.
void Http2Connection::detach(Http2Exchange& exchange) noexcept {
    exchange.end();
    spare_.push_back(&exchange); // has room
}

Task<void> Http2Connection::watch_streams() {
    const std::chrono::nanoseconds limit = time_limit(server_.options.timeouts.write);
    const auto interval = std::clamp<std::chrono::nanoseconds>(
        limit / 4, std::chrono::milliseconds(10), std::chrono::seconds(1));
    while (!is_idle()) {
        if (const Result<> slept = co_await sleep_for(interval); !slept) {
            co_return;
        }
        session_.reset_stalled(now(), limit);
        send_soon();
    }
    watching_ = false;
}

bool Http2Connection::is_idle() const noexcept {
    return session_.open_streams() == 0 && spare_.size() == exchanges_.size();
}

/// A connection without streams ends after the idle time, or in favour of another one. A head must
/// be complete in time. Bodies and responses have times of their own.
void Http2Connection::set_deadline() {
    const Waiting now_waiting = session_.head_is_open() ? Waiting::head
                                : is_idle()             ? Waiting::request
                                                        : Waiting::streams;
    const bool again = waiting_ == now_waiting && seen_ == carrier_.requests_;
    waiting_ = now_waiting;
    seen_ = carrier_.requests_;
    if (now_waiting == Waiting::streams && !watching_) {
        watching_ = true;
        scope_->spawn(cancellable(services_, watch_streams()));
    }
    if (again) {
        return;
    }
    server_.accept_loop.unlist(carrier_);
    switch (now_waiting) {
    case Waiting::streams:
        carrier_.clear_reading_deadline();
        break;
    case Waiting::request:
        free_spare();
        server_.accept_loop.list(carrier_,
                                 carrier_.set_reading_deadline(server_.options.timeouts.idle));
        break;
    case Waiting::head:
        carrier_.set_reading_deadline(server_.options.timeouts.head);
        break;
    }
}

/// Of a connection without streams, all exchanges are spare. A few are kept for the next streams.
void Http2Connection::free_spare() noexcept {
    constexpr std::size_t most_kept = 4;
    if (exchanges_.size() > most_kept) {
        exchanges_.resize(most_kept);
        spare_.clear();
        for (const std::unique_ptr<Http2Exchange>& each : exchanges_) {
            spare_.push_back(each.get()); // has room
        }
    }
}

Task<Result<>> Http2Connection::say_goodbye() {
    if (failed_) {
        co_return Result<>();
    }
    session_.go_away(ErrorCode::no_error);
    while (!send_at_once()) {
        if (const Result<> written =
                co_await carrier_.stream_.write_all(Bytes(output_.bytes().subspan(sent_)));
            !written) {
            co_return written;
        }
        sent_ = output_.size();
    }
    if (carrier_.socket_ == nullptr) {
        co_return co_await carrier_.stream_.shutdown();
    }
    co_return co_await carrier_.linger();
}

void Http2Connection::describe(OpenConnection& described) const {
    described.state = is_idle() ? OpenConnection::State::idle : OpenConnection::State::handling;
    for (const Stream* stream : session_.streams()) {
        if (const auto* exchange = static_cast<const Http2Exchange*>(stream->user)) {
            const RequestHead& head = exchange->head();
            described.request.append(head.method).append(" ").append(head.target);
            break;
        }
    }
}

} // namespace penstock::http::detail
