// The half of a connection that makes and sends responses.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <penstock/codec/http/head_writer.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/task/unwrap.hpp>

#include "codec/text.hpp"
#include "http/connection.hpp"
#include "http/response_fields.hpp"

namespace penstock::http::detail {

/// What the client still sends must be read before the next request. If that is much, or may never
/// come, the connection is closed instead.
void Connection::close_if_body_is_large() noexcept {
    if (body_is_unread() && (continue_due_ || head_.body.length > most_to_discard())) {
        keep_alive_ = false;
    }
}

/// The handler's fields. Returns whether there is a Date among them.
bool Connection::append_fields() {
    const Headers& headers = response_head().headers;
    bool dated = false;
    bool usual = true;
    for (const Field field : headers) {
        const FieldKind kind = kind_of(field.name);
        usual = usual && kind == FieldKind::other;
        dated = dated || kind == FieldKind::date;
        if (kind == FieldKind::connection &&
            Fields(std::span(&field, 1)).has_token("Connection", "close")) {
            keep_alive_ = false;
        }
    }
    if (usual) {
        out_ += headers.text();
        return dated;
    }
    for (const Field field : headers) {
        const FieldKind kind = kind_of(field.name);
        if (kind == FieldKind::of_the_server ||
            (kind == FieldKind::connection &&
             codec::http::equal_ignoring_case(field.value, "close"))) {
            continue;
        }
        out_.append(field.name).append(": ").append(field.value).append("\r\n");
    }
    return dated;
}

void Connection::append_head() {
    if (server_.accept_loop.stopping()) {
        keep_alive_ = false;
    }
    const Status status = response_head().status;
    if (status == Status::ok) {
        out_ += "HTTP/1.1 200 OK\r\n";
    } else {
        out_ += "HTTP/1.1 ";
        codec::append_number(out_, code(status));
        out_.append(" ").append(reason(status)).append("\r\n");
    }
    if (!append_fields()) {
        out_ += date_line();
    }
    out_ += server_.server_line;
    if (const std::optional<std::uint64_t> length = length_to_tell()) {
        out_ += "Content-Length: ";
        codec::append_number(out_, *length);
        out_ += "\r\n";
    } else if (framing_ == Framing::chunked) {
        out_ += "Transfer-Encoding: chunked\r\n";
    } else if (status == Status::reset_content) { // a client expects a body (RFC 9112, section 6.3)
        out_ += "Content-Length: 0\r\n";
    }
    if (!keep_alive_) {
        out_ += "Connection: close\r\n";
    } else if (head_.minor_version == 0) {
        out_ += "Connection: keep-alive\r\n";
    }
    out_ += "\r\n";
}

/// A response that the handler has not begun to send. A large body stays in `body_text_`.
void Connection::append_whole_response() {
    close_if_body_is_large();
    if (!frame_whole_body()) {
        append_head();
        body_text_.clear();
        return;
    }
    append_head();
    body_left_ = 0;
    if (body_text_.size() <= small_body) {
        out_ += body_text_;
        body_text_.clear();
    }
}

/// A response that is sent piece by piece.
void Connection::start_body() {
    close_if_body_is_large();
    choose_framing();
    append_head();
}

/// Waits until "100 Continue" has been sent: it and the response share `out_`.
Task<Result<>> Connection::until_continue_is_sent() {
    const auto turn = co_await continuing_.lock();
    co_return turn ? Result<>() : failure(turn.error());
}

Task<Result<>> Connection::write_body(Bytes part) {
    if (continuing_.locked()) {
        co_await unwrap(until_continue_is_sent());
    }
    if (stream_error_) {
        co_return failure(stream_error_);
    }
    if (!body_text_.empty()) {
        co_return failure(Error::response_sent);
    }
    if (!response_started()) {
        start_body();
    }
    if (framing_ == Framing::none || part.empty()) {
        const Result<> flushed = co_await flush();
        co_return flushed && !part.empty() ? failure(Error::response_sent) : flushed;
    }
    if (!count_part(part.size())) {
        co_return failure(Error::wrong_length);
    }
    const bool chunked = framing_ == Framing::chunked;
    if (chunked) {
        out_ += codec::http::ChunkHead(part.size()).text();
    }
    const Result<> sent =
        co_await send(Bytes(out_), part, chunked ? Bytes(codec::http::chunk_end) : Bytes());
    out_.clear();
    co_return sent;
}

Task<Result<>> Connection::write_file(fs::File& file, std::uint64_t offset, std::uint64_t size) {
    if (continuing_.locked()) {
        co_await unwrap(until_continue_is_sent());
    }
    if (!body_text_.empty()) {
        co_return failure(Error::response_sent);
    }
    if (!fits_length(size)) {
        co_return failure(Error::wrong_length);
    }
    constexpr std::size_t copied_size = std::size_t{16} * 1024;
    if (socket_ == nullptr || size <= copied_size || response_started() || answers_head() ||
        !status_has_body()) {
        co_return co_await copy_file(file, offset, size);
    }
    start_body();
    if (const Result<> flushed = co_await flush(); !flushed) {
        co_return flushed;
    }
    body_left_ -= size;
    while (size > 0) {
        set_writing_deadline();
        const std::uint64_t part = std::min<std::uint64_t>(size, 4 * part_size);
        const Result<std::uint64_t> sent = co_await socket_->send_file(file, offset, part);
        if (!sent) {
            stream_error_ = sent.error();
            co_return failure(stream_error_);
        }
        clear_writing_deadline();
        body_sent_ += *sent;
        if (*sent < part) { // the file has become shorter
            body_left_ = 1;
            co_return failure(Error::wrong_length);
        }
        offset += part;
        size -= part;
    }
    co_return Result<>();
}

/// Sends what the kernel takes now, which is usually all: without a task and a deadline. Returns
/// whether nothing is left. An error shows in `flush`.
bool Connection::flush_at_once() noexcept {
    if (out_.empty()) {
        return true;
    }
    if (socket_ == nullptr) {
        return false;
    }
    const std::size_t sent = socket_->try_write(Bytes(out_)).value_or(0);
    out_.erase(0, sent);
    return out_.empty();
}

Task<Result<>> Connection::flush() {
    if (out_.empty()) {
        co_return Result<>();
    }
    const Result<> sent = co_await send(Bytes(out_), {});
    out_.clear();
    co_return sent;
}

/// Sends all of it, a large body in parts, so that other tasks have their turn.
Task<Result<>> Connection::send(Bytes head, Bytes body, Bytes tail) {
    for (;;) {
        const Bytes part(body.data(), std::min(body.size(), part_size));
        body = Bytes(body.data() + part.size(), body.size() - part.size());
        const Bytes end = body.empty() ? tail : Bytes();
        set_writing_deadline();
        Result<> written;
        if (socket_ != nullptr) {
            written = co_await socket_->write_all(head, part, end);
        } else {
            written = co_await stream_.write_all(head, part, end);
        }
        if (!written) {
            stream_error_ = written.error();
            co_return written;
        }
        clear_writing_deadline();
        if (body.empty()) {
            co_return Result<>();
        }
        head = {};
    }
}

} // namespace penstock::http::detail
