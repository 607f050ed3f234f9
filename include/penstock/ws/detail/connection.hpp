#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/websocket/frame.hpp>
#include <penstock/codec/websocket/message_decoder.hpp>
#include <penstock/codec/websocket/message_deflater.hpp>
#include <penstock/detail/task/frame_allocator.hpp>
#include <penstock/detail/task/local_mutex.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>
#include <penstock/ws/detail/outgoing_frame.hpp>
#include <penstock/ws/options.hpp>
#include <penstock/ws/shared_message.hpp>

namespace penstock::ws::detail {

/// The payload of a control frame that waits to be sent.
struct PendingControl {
    /// The largest frame: two bytes, a mask key, the payload.
    static constexpr std::size_t frame_size = 6 + codec::websocket::maximum_control_payload;

    bool waiting = false;
    std::uint8_t size = 0;
    std::array<std::byte, codec::websocket::maximum_control_payload> bytes{};

    void assign(std::span<const std::byte> payload) noexcept {
        std::ranges::copy(payload, bytes.begin());
        size = static_cast<std::uint8_t>(payload.size());
        waiting = true;
    }
};

/// Control frames that a receiver queues. It never waits for the turn of a sender, whose progress
/// may depend on the receiver: the holder of the turn sends them. Only the last of several pings
/// is answered then (RFC 6455, section 5.5.3).
struct PendingControls {
    PendingControl pong;
    PendingControl close;
    io::MonotonicTime close_deadline = 0; ///< 0 before an end tries to close
    bool ping = false;

    [[nodiscard]] bool any() const noexcept { return pong.waiting || close.waiting || ping; }
};

/// What is left to write of a control frame.
struct PartOfControl {
    std::uint8_t size = 0;
    std::array<std::byte, PendingControl::frame_size> bytes{};

    explicit PartOfControl(Bytes left) noexcept : size(static_cast<std::uint8_t>(left.size())) {
        std::ranges::copy(left, bytes.begin());
    }
};

/// What both ends have agreed to compress with.
struct Compressor {
    std::unique_ptr<codec::websocket::MessageDeflater> deflater;
    std::unique_ptr<codec::websocket::MessageInflater> inflater;
    codec::ByteBuffer deflated{}; ///< with room for a header in front
    std::size_t threshold = 0;
    Compression compression{};
    int window_bits = 0; ///< of what this end sends
};

/// The part of a WebSocket that does not move with it and does not depend on its stream.
///
/// Owns the input, the decoder, the compressor and what is to be sent beside messages. It does no
/// I/O: the operations of a WebSocket read into `chunk` or `bytes`, decode from `rest`, and write
/// the frames that it makes. One task receives at a time (`receiving`); `messages` orders those who
/// send messages, and `frames`, taken inside of it, those who write frames.
///
/// Invalidated by: the payload of a message, by the next receive and by `release_input`; a frame
/// that `frame_of` has made, by the next one. `park_input` moves only what is not decoded.
///
/// Thread safety: only on the thread of its loop.
///
/// An idle connection has no input buffer and no decoder. `pending`, `compressor` and `peer_reason`
/// are allocated by the first use, because most connections need none of them.
class Connection {
public:
    using Role = codec::websocket::Role;
    using Opcode = codec::websocket::Opcode;

    /// Throws `std::bad_alloc`.
    Connection(Role side, const Limits& bounds)
        : role(side), limits(shared(bounds)), write_time(bounds.write) {}

    /// `rest` is the received data that is not decoded.
    [[nodiscard]] bool holds_input() const noexcept { return !rest.empty(); }
    void release_input() noexcept {
        rest = {};
        delivered = nullptr;
        chunk = {};
        if (bytes.capacity() != 0) {
            bytes = std::vector<std::byte>(); // not `{}`, which keeps the memory
        }
        if (decoder_ && compressor && compressor->compression.shared) {
            decoder_->release_memory();
        }
    }

    /// What decodes the input. Made when there is some, so that an idle connection has none. Throws
    /// `std::bad_alloc` then.
    [[nodiscard]] codec::websocket::MessageDecoder& decoder() {
        if (!decoder_) {
            make_decoder();
        }
        return *decoder_;
    }
    /// Its `take_whole` of `rest`. Throws as it.
    [[nodiscard]] codec::websocket::MessageDecoder::Event take_whole() {
        return decoder_ || holds_input() ? decoder().take_whole(rest)
                                         : codec::websocket::MessageDecoder::Event();
    }
    [[nodiscard]] bool inside_parts() const noexcept {
        return decoder_ && decoder_->inside_parts();
    }
    [[nodiscard]] bool inside_whole() const noexcept {
        return decoder_ && decoder_->inside_whole();
    }
    /// Whether what is not decoded begins with a whole ping or pong of a client, between messages.
    [[nodiscard]] bool begins_with_ping_or_pong() const noexcept {
        constexpr std::size_t head = 6; // with the mask
        if (role != Role::server || rest.size() < head || (decoder_ && !decoder_->at_rest())) {
            return false;
        }
        const auto kind = std::to_integer<unsigned>(rest[0]);
        const auto size = std::to_integer<unsigned>(rest[1]);
        constexpr unsigned masked = 0x80;
        return (kind == 0x89 || kind == 0x8A) && size >= masked &&
               size - masked <= codec::websocket::maximum_control_payload &&
               rest.size() - head >= size - masked;
    }
    /// A message that begins from now on is received as a whole.
    void expect_whole() noexcept {
        if (decoder_) {
            decoder_->limit_frames(limits->message); // the limit of a new one
        }
    }
    /// Frees it before a wait, if a new one would go on as well. That of a connection that
    /// compresses has a buffer which the next message needs.
    void release_decoder() noexcept {
        if (decoder_ && !compressor && decoder_->at_rest()) {
            decoder_.reset();
        }
    }

    /// After a frame was written.
    void release_output() noexcept {
        if (compressor && compressor->compression.shared) {
            compressor->deflated.clear(0);
        }
    }

    /// Returns the buffer of the input before a wait for the peer. What is not decoded is copied.
    /// Without memory for that, the buffer stays borrowed.
    void park_input() noexcept {
        try {
            std::vector<std::byte> kept(rest.begin(), rest.end());
            release_input();
            bytes = std::move(kept);
            rest = bytes;
        } catch (const std::bad_alloc&) {
            return;
        }
    }

    /// The error for a second concurrent receiver: the reason why the connection ended, or else
    /// `device_or_resource_busy`.
    [[nodiscard]] std::error_code error_of_second_receiver() const noexcept {
        return end ? end : std::make_error_code(std::errc::device_or_resource_busy);
    }

    /// Why nothing can be sent; no error if something can.
    [[nodiscard]] std::error_code refusal() const noexcept;

    /// The pending control frames. Throws `std::bad_alloc` the first time.
    [[nodiscard]] PendingControls& controls();
    [[nodiscard]] bool has_pending() const noexcept {
        return pending && pending->any() && !write_broken && !close_sent;
    }

    /// Frees them when none is left, unless an end tries to close.
    void release_controls() noexcept {
        if (pending && !pending->any() && pending->close_deadline == 0) {
            pending.reset();
        }
    }

    /// When the peer's time to take a close frame and to answer it ends. It begins with the first
    /// attempt to close, so that several of them do not add up. Throws `std::bad_alloc`.
    [[nodiscard]] io::MonotonicTime close_deadline();

    /// How long a receive may wait: `limit`, or what is left before the connection is idle for too
    /// long (`Limits::idle`, which is not 0), if that is less; `waits_for_idle` is set then.
    [[nodiscard]] std::chrono::milliseconds until_idle(std::chrono::milliseconds limit) noexcept;

    /// Compresses from now on, as both ends have agreed.
    void compress(const Compression& compression, const DeflateParameters& agreed);

    /// Which of a message's frames are made.
    struct Fragment {
        bool first = true;
        bool last = true;
    };
    /// A frame of a message, compressed if that was agreed. Valid until the next one.
    [[nodiscard]] OutgoingFrame frame_of(Opcode opcode, Bytes payload, Fragment fragment);
    /// The whole frame of a message that a server shares between connections.
    [[nodiscard]] Bytes frame_of(const SharedMessage& message);
    [[nodiscard]] OutgoingFrame control_frame(Opcode opcode, Bytes payload) const;

    /// The frame of a message that is sent in place: of the last received one, by a server that
    /// sends it as it is. Writes the header before the payload. Empty if that cannot be done.
    [[nodiscard]] Bytes frame_in_place(Opcode opcode, Bytes payload) noexcept {
        if (payload.data() != delivered || delivered == nullptr || role != Role::server ||
            compressor) {
            return {};
        }
        return put_header_before(opcode, payload);
    }

    /// A message that is returned to the program.
    void deliver(std::span<std::byte> payload) noexcept;

private:
    struct Decoder final : codec::websocket::MessageDecoder, penstock::detail::FrameAllocated {
        using MessageDecoder::MessageDecoder;
    };

    [[nodiscard]] static std::shared_ptr<const Limits> shared(const Limits& limits);
    void make_decoder();
    [[nodiscard]] Bytes put_header_before(Opcode opcode, Bytes payload) noexcept;

public:
    Role role;
    bool receiving = false;
    bool close_sent = false;
    bool peer_closed = false;
    bool write_broken = false;
    bool pinged = false;        ///< nothing has arrived since a ping
    bool drops_message = false; ///< `close` has dropped a part of the message, so all the rest goes
    bool sends_compressed = false;
    bool waits_for_idle = false; ///< `until_idle`
    std::uint8_t headroom = 0;
    std::uint16_t peer_code = 0;
    std::shared_ptr<const Limits> limits; ///< of all connections that have the same
    std::chrono::milliseconds write_time; ///< what holds now instead of `Limits::write`
    io::MonotonicTime idle_until = 0;     ///< 0: no wait has begun since the last message
    Chunk chunk{};                        ///< the input, from a stream that lends buffers
    std::vector<std::byte> bytes{};       ///< and from any other one
    std::span<std::byte> rest{};
    /// The payload of the last message if it is a view of the input. What is before it in the
    /// input, `headroom` bytes or more, was decoded and may be overwritten.
    const std::byte* delivered = nullptr;
    std::error_code end{};                   ///< why there are no more messages
    penstock::detail::LocalMutex messages{}; ///< the turn to send a message
    penstock::detail::LocalMutex frames{};   ///< the turn to send a frame
    std::unique_ptr<PendingControls> pending{};
    std::unique_ptr<Compressor> compressor{};
    std::unique_ptr<std::string> peer_reason{}; ///< null: none

private:
    std::unique_ptr<Decoder> decoder_{};
};

/// The writing of a frame. If that fails, by an error or for want of memory, a part of the frame
/// may be all that the peer ever gets, so nothing can be sent any more.
class FrameWrite {
public:
    explicit FrameWrite(Connection& connection) noexcept : connection_(connection) {}
    ~FrameWrite() {
        if (!whole_) {
            connection_.write_broken = true;
        }
    }
    FrameWrite(const FrameWrite&) = delete;
    FrameWrite& operator=(const FrameWrite&) = delete;

    /// Takes and returns the result of the last part.
    [[nodiscard]] Result<> end(Result<> written) noexcept {
        whole_ = written.has_value();
        return written;
    }

private:
    Connection& connection_;
    bool whole_ = false;
};

} // namespace penstock::ws::detail
