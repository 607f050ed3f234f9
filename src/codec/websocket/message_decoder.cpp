#include <penstock/codec/websocket/message_decoder.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::codec::websocket {

namespace {

MessageDecoder::Event control_event(const FrameDecoder::Event& part) noexcept {
    using Kind = MessageDecoder::Kind;
    MessageDecoder::Event event;
    event.code = part.code;
    event.payload = part.payload;
    switch (part.kind) {
    case FrameDecoder::Kind::ping:
        event.kind = Kind::ping;
        break;
    case FrameDecoder::Kind::pong:
        event.kind = Kind::pong;
        break;
    case FrameDecoder::Kind::close:
        event.kind = Kind::close;
        break;
    case FrameDecoder::Kind::failed:
        event.kind = Kind::failed;
        break;
    case FrameDecoder::Kind::data:
    case FrameDecoder::Kind::incomplete:
        break;
    }
    return event;
}

} // namespace

MessageDecoder::MessageDecoder(Role role, std::uint64_t maximum_message,
                               MessageInflater* inflater) noexcept
    : frames_(role, {.maximum_message = maximum_message,
                     .compression = inflater != nullptr,
                     .validate_text = true}),
      maximum_message_(maximum_message), inflater_(inflater) {}

MessageDecoder::Event MessageDecoder::failed(std::uint16_t code, std::string_view reason) noexcept {
    (void)frames_.fail(code, reason);
    Event event;
    event.kind = Kind::failed;
    return event;
}

MessageDecoder::Event MessageDecoder::add(const FrameDecoder::Event& part) {
    Event event;
    bool ascii = part.ascii;
    if (part.first && part.last && !part.compressed) {
        event.payload = part.payload;
    } else {
        if (part.first) {
            text_.reset();
        }
        if (part.compressed) {
            const std::size_t before = message_.size();
            switch (inflater_->inflate(part.payload, part.last, message_, maximum_message_)) {
            case MessageInflater::Outcome::done:
                break;
            case MessageInflater::Outcome::invalid:
                return failed(close_code::invalid_payload, "invalid compressed data");
            case MessageInflater::Outcome::too_large:
                return failed(close_code::message_too_big, "message too big");
            }
            if (part.opcode == Opcode::text) {
                if (!text_.add(message_.bytes().subspan(before)) ||
                    (part.last && !text_.complete())) {
                    return failed(close_code::invalid_payload, "text is not UTF-8");
                }
                ascii = text_.ascii();
            }
        } else {
            // Room for the rest of the frame saves copies later. It is limited: the peer has only
            // claimed the size.
            (void)message_.room(
                part.payload.size() +
                static_cast<std::size_t>(std::min<std::uint64_t>(part.frame_remaining, 1 << 20)));
            message_.append(part.payload);
        }
        if (!part.last) {
            return event;
        }
        event.payload = message_.bytes();
        delivered_ = true;
    }
    event.kind = part.opcode == Opcode::text ? Kind::text : Kind::binary;
    event.ascii = ascii && event.kind == Kind::text;
    return event;
}

MessageDecoder::Event MessageDecoder::decode(std::span<std::byte>& input) {
    if (const Event whole = take_whole(input); whole.kind != Kind::incomplete) {
        return whole;
    }
    for (;;) {
        const FrameDecoder::Event part = frames_.next(input);
        if (part.kind != FrameDecoder::Kind::data) {
            return control_event(part);
        }
        const Event event = add(part);
        if (event.kind != Kind::incomplete) {
            return event;
        }
    }
}

MessageDecoder::Event MessageDecoder::inflate_part() {
    Event event;
    while (inflating_ && message_.size() < part_size) {
        const std::span<std::byte> slice =
            part_.payload.first(std::min(part_.payload.size(), slice_size));
        part_.payload = part_.payload.subspan(slice.size());
        inflating_ = !part_.payload.empty();
        if (inflater_->inflate(slice, part_.last && !inflating_, message_,
                               std::numeric_limits<std::uint32_t>::max()) !=
            MessageInflater::Outcome::done) {
            return failed(close_code::invalid_payload, "invalid compressed data");
        }
    }
    event.last = part_.last && !inflating_;
    if (part_.opcode == Opcode::text &&
        (!text_.add(message_.bytes()) || (event.last && !text_.complete()))) {
        return failed(close_code::invalid_payload, "text is not UTF-8");
    }
    if (message_.empty() && !event.last) {
        return event; // nothing came out yet
    }
    event.kind = part_.opcode == Opcode::text ? Kind::text : Kind::binary;
    event.first = std::exchange(first_due_, false);
    event.payload = message_.bytes();
    delivered_ = true;
    by_parts_ = !event.last;
    return event;
}

MessageDecoder::Event MessageDecoder::part_so_far() noexcept {
    by_parts_ = true;
    first_due_ = message_.empty();
    Event event;
    if (!first_due_) {
        event.kind = frames_.message() == Opcode::text ? Kind::text : Kind::binary;
        event.last = false;
        event.payload = message_.bytes();
        delivered_ = true;
    }
    return event;
}

MessageDecoder::Event MessageDecoder::next_part(std::span<std::byte>& input) {
    forget_delivered();
    for (;;) {
        if (!inflating_) {
            part_ = frames_.next(input);
            if (part_.kind != FrameDecoder::Kind::data) {
                return control_event(part_);
            }
            by_parts_ = true;
            if (part_.first) {
                first_due_ = true;
                text_.reset();
            }
            inflating_ = part_.compressed;
        }
        if (inflating_) {
            const Event event = inflate_part();
            if (event.kind != Kind::incomplete) {
                return event;
            }
            continue;
        }
        Event event;
        event.kind = part_.opcode == Opcode::text ? Kind::text : Kind::binary;
        event.first = std::exchange(first_due_, false);
        event.last = part_.last;
        event.payload = part_.payload;
        by_parts_ = !part_.last;
        return event;
    }
}

} // namespace penstock::codec::websocket
