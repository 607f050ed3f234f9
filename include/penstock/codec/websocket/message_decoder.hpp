#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/websocket/frame_decoder.hpp>

namespace penstock::codec::websocket {

/// Decompresses the data of messages (RFC 7692). `Inflater` in deflate.hpp is the implementation on
/// zlib.
class MessageInflater {
public:
    enum class Outcome : std::uint8_t { done, invalid, too_large };

    virtual ~MessageInflater() = default;
    /// Appends the decompressed `data` to `output`, which may not become larger than `limit`.
    /// `last` ends the message.
    [[nodiscard]] virtual Outcome inflate(std::span<const std::byte> data, bool last,
                                          ByteBuffer& output, std::uint64_t limit) = 0;

protected:
    MessageInflater() = default;
    MessageInflater(const MessageInflater&) = default;
    MessageInflater& operator=(const MessageInflater&) = default;
};

/// Decodes whole messages on a `FrameDecoder`: joins fragments, decompresses, checks the text.
///
/// A message that is uncompressed, not fragmented and whole in the input is a view of the input;
/// any other is collected in a buffer of the decoder, which it keeps up to 64 KiB for the next
/// message. Control frames between fragments are returned when they arrive. Not thread safe.
class MessageDecoder {
public:
    enum class Kind : std::uint8_t {
        incomplete, ///< more bytes are needed
        text,       ///< `payload`: a message, valid UTF-8
        binary,     ///< `payload`: a message
        ping,
        pong,
        close,  ///< `code` and `payload`, the reason, valid UTF-8
        failed, ///< `failure()` gives the reason
    };

    struct Event {
        Kind kind = Kind::incomplete;
        bool ascii = false; ///< `text`: and all of it is ASCII
        bool first = true;  ///< of `next_part`: the message begins with this part
        bool last = true;   ///< and ends with it
        std::uint16_t code = 0;
        /// Valid until the next call and while the input is.
        std::span<std::byte> payload;
    };

    /// `inflater`, which must outlive the decoder, is null if no compression was negotiated.
    /// `maximum_message` limits a message before and after decompression.
    explicit MessageDecoder(Role role, std::uint64_t maximum_message = std::uint64_t{1} << 20,
                            MessageInflater* inflater = nullptr) noexcept;

    /// Decodes the next event and takes its bytes from the front of `input`. Throws
    /// `std::bad_alloc` only.
    [[nodiscard]] Event next(std::span<std::byte>& input) {
        // Most input ends with a message, and is asked for more behind it.
        if (input.empty() && frames_.failure().code == 0) {
            forget_delivered();
            return {};
        }
        return decode(input);
    }

    /// Decodes a message that is one frame, uncompressed and whole in `input`, as most are.
    /// `incomplete`, and takes nothing, if the input is empty or begins with anything else: `next`
    /// then tells what it is.
    [[nodiscard]] Event take_whole(std::span<std::byte>& input) noexcept {
        forget_delivered();
        Event event;
        if (FrameDecoder::Whole whole; frames_.take_whole(input, whole)) {
            event.kind = whole.text ? Kind::text : Kind::binary;
            event.ascii = whole.ascii;
            event.payload = whole.payload;
        }
        return event;
    }

    /// As `next`, but returns the parts of messages as they arrive, so that a message of any size
    /// needs little memory: what is compressed grows to about 64 KiB a part. `input` must stay
    /// until this returns `incomplete`. A message that was begun by `next` or `next_part` must be
    /// finished by the same function, but for `part_so_far`.
    [[nodiscard]] Event next_part(std::span<std::byte>& input);

    /// Goes over to parts: a message that `next` has begun is finished by `next_part`. Returns what
    /// was collected of it, its first part; `incomplete` if there is none yet. Only if
    /// `inside_whole()`.
    [[nodiscard]] Event part_so_far() noexcept;

    /// Whether a message was begun by `next_part`, or by `next`, and has not ended.
    [[nodiscard]] bool inside_parts() const noexcept { return by_parts_; }
    [[nodiscard]] bool inside_whole() const noexcept {
        return frames_.inside_message() && !by_parts_;
    }

    /// Whether a new decoder would go on as well: nothing is kept of what was decoded.
    [[nodiscard]] bool at_rest() const noexcept {
        return frames_.at_rest() && !by_parts_ && !inflating_;
    }

    /// Limits the messages that begin from now on, before decompression. Only between messages.
    void limit_frames(std::uint64_t maximum_message) noexcept {
        frames_.limit_messages(maximum_message);
    }

    /// Frees the buffer that is kept for the next message. Keeps what was collected of one that has
    /// begun, and one that was returned.
    void release_memory() noexcept {
        if (!frames_.inside_message() && !delivered_) {
            message_.clear(0);
        }
    }

    [[nodiscard]] const Failure& failure() const noexcept { return frames_.failure(); }

private:
    [[nodiscard]] Event decode(std::span<std::byte>& input);
    [[nodiscard]] Event add(const FrameDecoder::Event& part);
    [[nodiscard]] Event failed(std::uint16_t code, std::string_view reason) noexcept;
    [[nodiscard]] Event inflate_part();
    void forget_delivered() noexcept {
        if (delivered_) {
            message_.clear(kept_capacity);
            delivered_ = false;
        }
    }

    static constexpr std::size_t kept_capacity = 65536;
    /// A part of a compressed message ends beyond this size. Slices of the input bound what may be
    /// added to it: deflate grows data up to 1032 times.
    static constexpr std::size_t part_size = 65536;
    static constexpr std::size_t slice_size = 1024;

    FrameDecoder frames_;
    ByteBuffer message_;
    Utf8Validator text_;
    std::uint64_t maximum_message_;
    MessageInflater* inflater_;
    FrameDecoder::Event part_; ///< `next_part`: of a compressed message, being decompressed
    bool delivered_ = false;   ///< `message_` holds a message that was returned
    bool by_parts_ = false;
    bool inflating_ = false; ///< `part_` has data left
    bool first_due_ = false; ///< the next part is the first one of its message
};

} // namespace penstock::codec::websocket
