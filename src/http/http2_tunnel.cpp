#include "http/http2_tunnel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/codec/http/fields.hpp>
#include <penstock/codec/http/response_parser.hpp>
#include <penstock/detail/task/budget_operation.hpp>

#include "http/http2_connection.hpp"

namespace penstock::http::detail {

using codec::http2::ErrorCode;

Http2Tunnel::Http2Tunnel(Http2Connection& connection, codec::http2::Stream& stream) noexcept
    : connection_(&connection), stream_(&stream) {
    stream.keep_request(true);
}

void Http2Tunnel::take_received() {
    codec::ByteBuffer& arrived = stream_->received;
    if (closed_) {
        connection_->session().consume(*stream_, arrived.size());
        arrived.clear(0);
    } else if (given_ == received_.size()) {
        received_.clear();
        given_ = 0;
        std::swap(received_, arrived);
    } else {
        drop_given();
        received_.append(arrived.bytes());
        arrived.clear();
    }
    ended_ = stream_->request_ended();
    arrived_.set();
    moved_.set();
}

/// A reader that never catches up must not make the buffer grow: only the window bounds what it has
/// not read. What is left is moved once for each time that as much was read.
void Http2Tunnel::drop_given() noexcept {
    const std::size_t left = received_.size() - given_;
    if (given_ >= left) {
        std::memcpy(received_.bytes().data(), received_.bytes().data() + given_, left);
        received_.truncate(left);
        given_ = 0;
    }
}

void Http2Tunnel::lose_stream() noexcept {
    stream_ = nullptr;
    connection_ = nullptr;
    if (!error_) {
        error_ = std::make_error_code(std::errc::connection_reset);
    }
    arrived_.set();
    moved_.set();
}

void Http2Tunnel::end() noexcept {
    close();
    stream_ = nullptr;
    connection_ = nullptr;
}

Task<Result<std::size_t>> Http2Tunnel::read(MutableBytes into) {
    for (;;) {
        if (given_ < received_.size()) {
            const std::size_t size = std::min(into.size(), received_.size() - given_);
            if (size > 0) {
                std::memcpy(into.data(), received_.bytes().data() + given_, size);
            }
            given_ += size;
            if (given_ == received_.size()) {
                received_.clear(kept_memory);
                given_ = 0;
            }
            if (stream_ != nullptr) {
                connection_->session().consume(*stream_, size);
                connection_->send_soon();
            }
            (void)co_await penstock::detail::BudgetOperation(); // a window holds many small parts
            co_return size;
        }
        if (ended_) {
            co_return 0;
        }
        if (error_) {
            co_return failure(error_);
        }
        arrived_.reset();
        if (const Result<> arrived = co_await arrived_.wait(); !arrived) {
            co_return failure(arrived.error());
        }
    }
}

Result<Bytes> Http2Tunnel::answer(Bytes part) {
    constexpr std::size_t most_fields = 64;
    std::array<codec::http::Field, most_fields> storage;
    codec::http::ResponseParser parser(storage);
    head_.append(reinterpret_cast<const char*>(part.data()), part.size());
    while (parser.parse(head_) == codec::http::Progress::complete) {
        const codec::http::ResponseHead& head = parser.head();
        constexpr int switching = 101;
        if (head.status < 200 && head.status != switching) { // of HTTP/1.1 only
            head_.erase(0, head.size);
            parser.reset();
            continue;
        }
        std::vector<codec::http::Field> fields;
        for (const codec::http::Field& field : head.fields) {
            if (!codec::http::equal_ignoring_case(field.name, "Sec-WebSocket-Accept")) {
                fields.push_back(field);
            }
        }
        connection_->session().respond(*stream_, head.status == switching ? 200 : head.status,
                                       fields, false);
        connection_->send_soon();
        answered_ = true;
        const std::size_t behind = head_.size() - head.size;
        std::string().swap(head_);
        return Bytes(part.data() + (part.size() - behind), behind);
    }
    if (parser.error() != codec::http::Error::none) {
        cut_ = true;
        return failure(std::errc::protocol_error);
    }
    return Bytes();
}

Task<Result<>> Http2Tunnel::write_all(Bytes head, Bytes body, Bytes tail) {
    for (Bytes part : {head, body, tail}) {
        if (error_) {
            co_return failure(error_);
        }
        if (shut_ || cut_) {
            co_return failure(std::errc::broken_pipe);
        }
        if (!answered_) {
            const Result<Bytes> behind = answer(part);
            if (!behind) {
                co_return failure(behind.error());
            }
            part = *behind;
        }
        if (const Result<> sent = co_await send(part); !sent) {
            cut_ = true;
            co_return sent;
        }
    }
    (void)co_await penstock::detail::BudgetOperation();
    co_return Result<>();
}

Task<Result<>> Http2Tunnel::send(Bytes part) {
    while (!part.empty()) {
        while (!error_ && stream_->unsent() > most_unsent) {
            moved_.reset();
            if (const Result<> moved = co_await moved_.wait(); !moved) {
                co_return moved;
            }
        }
        if (error_) {
            co_return failure(error_);
        }
        const Bytes next(part.data(), std::min(part.size(), most_unsent));
        connection_->session().write(*stream_,
                                     {reinterpret_cast<const char*>(next.data()), next.size()});
        connection_->send_soon();
        part = Bytes(part.data() + next.size(), part.size() - next.size());
    }
    co_return Result<>();
}

Task<Result<>> Http2Tunnel::shutdown() {
    if (error_) {
        co_return failure(error_);
    }
    if (answered_ && !cut_ && !std::exchange(shut_, true)) {
        connection_->session().finish(*stream_);
        connection_->send_soon();
    }
    co_return Result<>();
}

/// The client reads the end of what was written whole, and otherwise that it was cut off.
void Http2Tunnel::close() noexcept {
    if (std::exchange(closed_, true)) {
        return;
    }
    if (!error_) {
        error_ = std::make_error_code(std::errc::operation_canceled);
    }
    received_.clear(0);
    given_ = 0;
    if (stream_ != nullptr) {
        codec::http2::ServerSession& session = connection_->session();
        stream_->keep_request(false);
        if (!answered_) {
            session.reset(*stream_, ErrorCode::internal_error);
        } else if (cut_) {
            session.reset(*stream_, ErrorCode::cancel);
        } else if (!shut_) {
            session.finish(*stream_);
        } else if (stream_->response_sent()) {
            session.reset(*stream_, ErrorCode::no_error); // nobody reads what the client sends
        }
        connection_->send_soon();
    }
    arrived_.set();
    moved_.set();
}

} // namespace penstock::http::detail
