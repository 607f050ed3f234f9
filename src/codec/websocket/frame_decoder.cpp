#include <penstock/codec/websocket/frame_decoder.hpp>

#include <algorithm>
#include <cstring>

#include <penstock/codec/websocket/masking.hpp>

namespace penstock::codec::websocket {

namespace {

constexpr std::uint8_t final_bit = 0x80;
constexpr std::uint8_t compressed_bit = 0x40;
constexpr std::uint8_t other_reserved_bits = 0x30;
constexpr std::uint8_t mask_bit = 0x80;

bool is_control(Opcode opcode) noexcept {
    return (static_cast<std::uint8_t>(opcode) & 8) != 0;
}

/// The size of a header, by its second byte.
std::size_t header_size(std::uint8_t second) noexcept {
    const std::uint8_t length = second & 0x7f;
    return 2U +
           (length == 126   ? 2U
            : length == 127 ? 8U
                            : 0U) +
           ((second & mask_bit) != 0 ? 4U : 0U);
}

std::uint64_t big_endian(const std::byte* bytes, std::size_t size) noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    }
    return value;
}

} // namespace

bool FrameDecoder::refuse(std::uint16_t code, std::string_view reason) noexcept {
    failure_ = {code, reason};
    state_ = State::ended;
    return false;
}

FrameDecoder::Event FrameDecoder::fail(std::uint16_t code, std::string_view reason) noexcept {
    (void)refuse(code, reason);
    Event event;
    event.kind = Kind::failed;
    return event;
}

bool FrameDecoder::check_opcode(std::uint8_t first, std::uint64_t size) noexcept {
    final_ = (first & final_bit) != 0;
    const bool compressed = (first & compressed_bit) != 0;
    if ((first & other_reserved_bits) != 0 || (compressed && !options_.compression)) {
        return refuse(close_code::protocol_error, "reserved bits are set");
    }
    const auto code = static_cast<std::uint8_t>(first & 0x0f);
    opcode_ = static_cast<Opcode>(code);
    if ((code > 2 && code < 8) || code > 10) {
        return refuse(close_code::protocol_error, "reserved opcode");
    }
    if (is_control(opcode_)) {
        if (!final_) {
            return refuse(close_code::protocol_error, "fragmented control frame");
        }
        if (size > maximum_control_payload) {
            return refuse(close_code::protocol_error, "control frame of more than 125 bytes");
        }
        if (compressed) {
            return refuse(close_code::protocol_error, "compressed control frame");
        }
        return true;
    }
    if (opcode_ == Opcode::continuation) {
        if (!inside_message()) {
            return refuse(close_code::protocol_error, "continuation without a message");
        }
        if (compressed) {
            return refuse(close_code::protocol_error, "RSV1 in a continuation frame");
        }
    } else {
        if (inside_message()) {
            return refuse(close_code::protocol_error, "new message inside a message");
        }
        message_ = opcode_;
        compressed_ = compressed;
        begun_ = false;
        message_size_ = 0;
        text_.reset();
    }
    if (size > options_.maximum_message - message_size_) {
        return refuse(close_code::message_too_big, "message too big");
    }
    message_size_ += size;
    return true;
}

bool FrameDecoder::read_header(const std::byte* header, std::size_t size) noexcept {
    const auto second = std::to_integer<std::uint8_t>(header[1]);
    const bool masked = (second & mask_bit) != 0;
    std::uint64_t length = second & 0x7f;
    if (length >= 126) {
        const std::size_t digits = length == 126 ? 2 : 8;
        length = big_endian(header + 2, digits);
        if (length < (digits == 2 ? 126U : 65536U) || length >> 63 != 0) {
            return refuse(close_code::protocol_error, "payload length not in its shortest form");
        }
    }
    if (masked != (role_ == Role::server)) {
        return refuse(close_code::protocol_error,
                      masked ? "masked frame from a server" : "unmasked frame from a client");
    }
    if (!check_opcode(std::to_integer<std::uint8_t>(header[0]), length)) {
        return false;
    }
    if (masked) {
        std::memcpy(key_.data(), header + size - key_.size(), key_.size());
    }
    frame_size_ = remaining_ = length;
    kept_ = 0;
    state_ = is_control(opcode_) ? State::control : State::data;
    return true;
}

/// False if the header is not complete, or if it is refused.
bool FrameDecoder::collect_header(std::span<std::byte>& input) noexcept {
    if (kept_ == 0) {
        if (input.size() >= 2) {
            const std::size_t size = header_size(std::to_integer<std::uint8_t>(input[1]));
            if (input.size() >= size) {
                const std::byte* header = input.data();
                input = input.subspan(size);
                return read_header(header, size);
            }
        }
    }
    while (!input.empty()) {
        const std::size_t size =
            kept_ < 2 ? 2 : header_size(std::to_integer<std::uint8_t>(kept_header_[1]));
        const std::size_t taken = std::min(size - kept_, input.size());
        std::memcpy(kept_header_.data() + kept_, input.data(), taken);
        kept_ += static_cast<std::uint8_t>(taken);
        input = input.subspan(taken);
        if (kept_ >= 2 && kept_ == header_size(std::to_integer<std::uint8_t>(kept_header_[1]))) {
            return read_header(kept_header_.data(), kept_);
        }
    }
    return false;
}

FrameDecoder::Event FrameDecoder::take_data(std::span<std::byte>& input) noexcept {
    Event event;
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, input.size()));
    // An empty part says only that a message begins or ends.
    if (size == 0 && remaining_ != 0) {
        return event;
    }
    event.kind = Kind::data;
    event.payload = input.first(size);
    input = input.subspan(size);
    if (role_ == Role::server) {
        apply_mask(event.payload, key_, static_cast<std::size_t>((frame_size_ - remaining_) % 4));
    }
    remaining_ -= size;
    event.opcode = message_;
    event.first = !begun_;
    event.last = final_ && remaining_ == 0;
    event.compressed = compressed_;
    event.frame_remaining = remaining_;
    begun_ = true;
    if (message_ == Opcode::text && !compressed_ && options_.validate_text) {
        if (!text_.add(event.payload) || (event.last && !text_.complete())) {
            return fail(close_code::invalid_payload, "text is not UTF-8");
        }
        event.ascii = text_.ascii();
    }
    if (remaining_ == 0) {
        state_ = State::header;
        if (final_) {
            message_ = Opcode::continuation;
        }
    }
    return event;
}

FrameDecoder::Event FrameDecoder::control_event(std::span<std::byte> payload) noexcept {
    if (role_ == Role::server) {
        apply_mask(payload, key_);
    }
    state_ = State::header;
    kept_ = 0;
    Event event;
    event.opcode = opcode_;
    event.payload = payload;
    if (opcode_ != Opcode::close) {
        event.kind = opcode_ == Opcode::ping ? Kind::ping : Kind::pong;
        return event;
    }
    event.code = close_code::none;
    if (!payload.empty()) {
        if (payload.size() == 1) {
            return fail(close_code::protocol_error, "close frame of one byte");
        }
        event.code = static_cast<std::uint16_t>(big_endian(payload.data(), 2));
        event.payload = payload.subspan(2);
        if (!may_be_sent(event.code)) {
            return fail(close_code::protocol_error, "invalid close code");
        }
        Utf8Validator reason;
        if (!reason.add(event.payload) || !reason.complete()) {
            return fail(close_code::invalid_payload, "close reason is not UTF-8");
        }
    }
    event.kind = Kind::close;
    state_ = State::ended;
    return event;
}

FrameDecoder::Event FrameDecoder::take_control(std::span<std::byte>& input) {
    const auto whole = static_cast<std::size_t>(frame_size_);
    if (kept_ == 0 && input.size() >= whole) {
        const std::span<std::byte> payload = input.first(whole);
        input = input.subspan(whole);
        return control_event(payload);
    }
    if (input.empty()) {
        return {};
    }
    if (!kept_control_) {
        kept_control_ = std::make_unique_for_overwrite<std::byte[]>(maximum_control_payload);
    }
    const std::size_t taken = std::min(whole - kept_, input.size());
    std::memcpy(kept_control_.get() + kept_, input.data(), taken);
    kept_ += static_cast<std::uint8_t>(taken);
    input = input.subspan(taken);
    if (kept_ < whole) {
        return {};
    }
    return control_event({kept_control_.get(), whole});
}

bool FrameDecoder::take_whole(std::span<std::byte>& input, Whole& whole) noexcept {
    constexpr std::uint8_t final_text = final_bit | 1;
    constexpr std::uint8_t final_binary = final_bit | 2;
    if (input.size() < 2 || state_ != State::header || kept_ != 0 || inside_message()) {
        return false;
    }
    const auto first = std::to_integer<std::uint8_t>(input[0]);
    const auto second = std::to_integer<std::uint8_t>(input[1]);
    const bool masked = role_ == Role::server;
    if ((first != final_text && first != final_binary) || ((second & mask_bit) != 0) != masked) {
        return false;
    }
    std::size_t begin = masked ? 2 + key_.size() : 2;
    std::size_t size = second & 0x7f;
    if (size == 126 && input.size() >= 4) {
        begin += 2;
        size = std::to_integer<std::size_t>(input[2]) << 8 | std::to_integer<std::size_t>(input[3]);
        if (size < 126) {
            return false;
        }
    } else if (size >= 126) {
        return false; // a large one costs more than its header, or the header is not there
    }
    if (input.size() < begin + size || size > options_.maximum_message) {
        return false;
    }
    whole.payload = input.subspan(begin, size);
    whole.text = first == final_text;
    if (masked) {
        MaskKey key;
        std::memcpy(key.data(), input.data() + begin - key.size(), key.size());
        apply_mask(whole.payload, key);
    }
    if (whole.text && options_.validate_text) {
        Utf8Validator text;
        if (!text.add(whole.payload) || !text.complete()) {
            return refuse(close_code::invalid_payload, "text is not UTF-8");
        }
        whole.ascii = text.ascii();
    }
    input = input.subspan(begin + size);
    return true;
}

FrameDecoder::Event FrameDecoder::next(std::span<std::byte>& input) {
    if (state_ == State::header && !collect_header(input) && state_ != State::ended) {
        return {};
    }
    switch (state_) {
    case State::data:
        return take_data(input);
    case State::control:
        return take_control(input);
    default:
        break;
    }
    // After a close frame or a failure the peer has nothing to say that matters.
    input = {};
    Event event;
    event.kind = failure_.code != 0 ? Kind::failed : Kind::incomplete;
    return event;
}

} // namespace penstock::codec::websocket
