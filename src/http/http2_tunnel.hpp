#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/http2/server_session.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http::detail {

class Http2Connection;

/// A stream of HTTP/2 that another protocol is spoken on, asked for by an extended CONNECT (RFC
/// 8441). Handlers of upgrades know HTTP/1.1: what they write begins with the head of a response,
/// "101 Switching Protocols" or a refusal. It is sent as the head of the stream, and what follows
/// as its data.
///
/// One task reads and one writes. The stream that handlers have may outlive the handler and the
/// connection, so both share this.
class Http2Tunnel {
public:
    Http2Tunnel(Http2Connection& connection, codec::http2::Stream& stream) noexcept;
    Http2Tunnel(const Http2Tunnel&) = delete;
    Http2Tunnel& operator=(const Http2Tunnel&) = delete;
    ~Http2Tunnel() = default;

    // For the exchange.
    void take_received();
    /// The stream was reset, or its connection is lost.
    void lose_stream() noexcept;
    /// The handler has ended: closes what it has left open.
    void end() noexcept;

    // For the handler: as any stream.
    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into);
    [[nodiscard]] Task<Result<>> write_all(Bytes head, Bytes body, Bytes tail);
    [[nodiscard]] Task<Result<>> shutdown();
    void close() noexcept;

private:
    /// What may wait in the session for the client's window, when another part is added.
    static constexpr std::size_t most_unsent = std::size_t{64} * 1024;

    /// Memory of the buffer that is kept while it waits.
    static constexpr std::size_t kept_memory = 512;

    void drop_given() noexcept;
    /// Takes bytes of the response's head. Returns what is behind it.
    [[nodiscard]] Result<Bytes> answer(Bytes part);
    [[nodiscard]] Task<Result<>> send(Bytes part);

    Http2Connection* connection_; ///< null without a stream
    codec::http2::Stream* stream_;
    codec::ByteBuffer received_;
    std::size_t given_ = 0; ///< of `received_`
    sync::Event arrived_;
    sync::Event moved_;
    std::string head_;      ///< of the response, until it is whole
    std::error_code error_; ///< final
    bool ended_ = false;    ///< the client has ended its side
    bool answered_ = false;
    bool shut_ = false;
    bool cut_ = false; ///< a part of a write may be sent
    bool closed_ = false;
};

/// What a handler has of it.
class Http2TunnelStream {
public:
    explicit Http2TunnelStream(std::shared_ptr<Http2Tunnel> tunnel) noexcept
        : tunnel_(std::move(tunnel)) {}
    Http2TunnelStream(Http2TunnelStream&&) noexcept = default;
    Http2TunnelStream& operator=(Http2TunnelStream&&) = delete;
    Http2TunnelStream(const Http2TunnelStream&) = delete;
    Http2TunnelStream& operator=(const Http2TunnelStream&) = delete;
    ~Http2TunnelStream() {
        if (tunnel_ != nullptr) {
            tunnel_->close();
        }
    }

    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into) { return tunnel_->read(into); }
    [[nodiscard]] Task<Result<>> write_all(Bytes head, Bytes body = {}, Bytes tail = {}) {
        return tunnel_->write_all(head, body, tail);
    }
    [[nodiscard]] Task<Result<>> shutdown() { return tunnel_->shutdown(); }
    void close() noexcept { tunnel_->close(); }

private:
    std::shared_ptr<Http2Tunnel> tunnel_;
};

} // namespace penstock::http::detail
