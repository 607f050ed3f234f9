#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/codec/websocket/utf8.hpp>

namespace penstock::codec::websocket {

/// Why a connection fails, and the close code that says so to the peer.
struct Failure {
    std::uint16_t code = 0;  ///< 1002, 1007 or 1009
    std::string_view reason; ///< static text
};

/// Decodes the frames that a peer sends (RFC 6455, 5). It takes all of its input and keeps at most
/// 139 bytes: a part of a header, or of a control frame, which has memory of its own. Data is
/// unmasked in place and returned as views of the input, even from frames that have not ended, so
/// a message of any size can be streamed.
///
///     std::span<std::byte> input = received;
///     for (;;) {
///         const FrameDecoder::Event event = decoder.next(input);
///         if (event.kind == Kind::incomplete) break;      // all input is used
///         ...
///     }
///
/// Checked are: masking by role, reserved bits and opcodes, the size and fragmentation of control
/// frames, the order of fragments, lengths in their shortest form, close codes, UTF-8 in text that
/// is not compressed and in close reasons, and the size of a message before its data arrives.
/// Not thread safe.
class FrameDecoder {
public:
    enum class Kind : std::uint8_t {
        incomplete, ///< more bytes are needed
        data,       ///< a part of a message
        ping,       ///< `payload`, to be sent back in a pong
        pong,
        close,  ///< `code` and `payload`, the reason; what follows is not decoded
        failed, ///< `failure()` gives the reason; what follows is not decoded
    };

    struct Event {
        Kind kind = Kind::incomplete;
        /// `data`: text or binary, the same for all parts of the message.
        Opcode opcode = Opcode::continuation;
        bool first = false;      ///< `data`: the message begins with this part
        bool last = false;       ///< `data`: and ends with it
        bool compressed = false; ///< `data`: of a compressed message (RFC 7692)
        bool ascii = false;      ///< `data`: all of the message up to here is ASCII text
        /// `close`: the code, or `close_code::none`.
        std::uint16_t code = 0;
        /// Valid while the input is; that of a control frame only until the next call.
        std::span<std::byte> payload;
        /// `data`: how many bytes of this frame are still to come.
        std::uint64_t frame_remaining = 0;
    };

    struct Options {
        /// Bytes of a message, before decompression. Beyond it, the connection fails with 1009.
        std::uint64_t maximum_message = std::uint64_t{1} << 20;
        /// permessage-deflate was negotiated: RSV1 is allowed on first frames.
        bool compression = false;
        /// Whether uncompressed text is checked here.
        bool validate_text = true;
    };

    FrameDecoder(Role role, const Options& options) noexcept : options_(options), role_(role) {}
    explicit FrameDecoder(Role role) noexcept : FrameDecoder(role, Options{}) {}

    /// Decodes the next event and takes its bytes from the front of `input`. Throws
    /// `std::bad_alloc`, at the first control frame that arrives in parts.
    [[nodiscard]] Event next(std::span<std::byte>& input);

    /// A message that is one frame.
    struct Whole {
        std::span<std::byte> payload;
        bool text = false;
        bool ascii = false; ///< text, and all of it is ASCII
    };

    /// Decodes a message that is one frame, uncompressed and whole in `input`, as most are. False
    /// if the input begins with anything else, or is invalid: `next` then tells what it is.
    [[nodiscard]] bool take_whole(std::span<std::byte>& input, Whole& whole) noexcept;

    [[nodiscard]] const Failure& failure() const noexcept { return failure_; }

    /// Replaces `Options::maximum_message`. Only between messages.
    void limit_messages(std::uint64_t maximum) noexcept { options_.maximum_message = maximum; }

    /// Whether a message has begun and not ended.
    [[nodiscard]] bool inside_message() const noexcept { return message_ != Opcode::continuation; }
    /// Whether nothing is kept: what follows begins a frame, and a message unless it
    /// is a control frame. A new decoder could continue here.
    [[nodiscard]] bool at_rest() const noexcept {
        return state_ == State::header && kept_ == 0 && !inside_message();
    }
    /// The opcode of the message that has begun and not ended; continuation outside of one.
    [[nodiscard]] Opcode message() const noexcept { return message_; }

    /// Fails the connection from outside: the next events are `failed`.
    Event fail(std::uint16_t code, std::string_view reason) noexcept;

private:
    enum class State : std::uint8_t { header, data, control, ended };

    [[nodiscard]] bool collect_header(std::span<std::byte>& input) noexcept;
    [[nodiscard]] bool read_header(const std::byte* header, std::size_t size) noexcept;
    [[nodiscard]] bool check_opcode(std::uint8_t first, std::uint64_t size) noexcept;
    [[nodiscard]] Event take_data(std::span<std::byte>& input) noexcept;
    [[nodiscard]] Event take_control(std::span<std::byte>& input);
    [[nodiscard]] Event control_event(std::span<std::byte> payload) noexcept;
    [[nodiscard]] bool refuse(std::uint16_t code, std::string_view reason) noexcept;

    Options options_;
    std::uint64_t frame_size_ = 0;
    std::uint64_t remaining_ = 0; ///< of this frame
    std::uint64_t message_size_ = 0;
    Failure failure_;
    Role role_;
    State state_ = State::header;
    Opcode opcode_ = Opcode::continuation;  ///< of this frame
    Opcode message_ = Opcode::continuation; ///< of the message; continuation between messages
    bool final_ = false;
    bool compressed_ = false;
    bool begun_ = false; ///< a part of this message was returned
    std::uint8_t kept_ = 0;
    Utf8Validator text_;
    MaskKey key_{};
    std::array<std::byte, maximum_frame_header> kept_header_;
    std::unique_ptr<std::byte[]> kept_control_; ///< `maximum_control_payload` bytes, once needed
};

} // namespace penstock::codec::websocket
