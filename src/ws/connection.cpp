#include <penstock/ws/detail/connection.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <utility>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/io/never_destroyed.hpp>
#include <penstock/ws/errors.hpp>

namespace penstock::ws::detail {

namespace websocket = codec::websocket;

namespace {

/// What a connection keeps of the room for compressed messages.
constexpr std::size_t kept_capacity = 16384;

} // namespace

/// A server gives all its connections the same limits.
std::shared_ptr<const Limits> Connection::shared(const Limits& limits) {
    struct Last {
        std::mutex lock;
        std::shared_ptr<const Limits> limits;
    };
    static io::NeverDestroyed<Last> kept;
    Last& last = *kept;
    const std::scoped_lock held(last.lock);
    if (last.limits == nullptr || *last.limits != limits) {
        last.limits = std::make_shared<const Limits>(limits);
    }
    return last.limits;
}

std::error_code Connection::refusal() const noexcept {
    if (close_sent || (pending && pending->close.waiting)) {
        return Error::closed;
    }
    return write_broken ? make_error_code(Error::broken) : std::error_code();
}

PendingControls& Connection::controls() {
    if (!pending) {
        pending = std::make_unique<PendingControls>();
    }
    return *pending;
}

io::MonotonicTime Connection::close_deadline() {
    io::MonotonicTime& deadline = controls().close_deadline;
    if (deadline == 0) {
        deadline = penstock::detail::deadline_after(penstock::detail::time_limit(limits->close));
    }
    return deadline;
}

std::chrono::milliseconds Connection::until_idle(std::chrono::milliseconds limit) noexcept {
    waits_for_idle = false;
    if (close_sent) {
        return limit; // `Limits::close` holds
    }
    const io::MonotonicTime now = io::coarse_monotonic_now();
    if (idle_until == 0) {
        idle_until = penstock::detail::deadline_after(limits->idle, now);
    }
    const auto left = std::max(
        std::chrono::milliseconds(1),
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(idle_until - now)));
    waits_for_idle = limit <= std::chrono::milliseconds::zero() || left <= limit;
    return waits_for_idle ? left : limit;
}

void Connection::compress(const Compression& compression, const DeflateParameters& agreed) {
    const bool server = role == Role::server;
    const int own_bits = server ? agreed.server_max_window_bits : agreed.client_max_window_bits;
    const int peer_bits = server ? agreed.client_max_window_bits : agreed.server_max_window_bits;
    const bool own_resets =
        server ? agreed.server_no_context_takeover : agreed.client_no_context_takeover;
    const bool peer_resets =
        server ? agreed.client_no_context_takeover : agreed.server_no_context_takeover;
    compressor = std::make_unique<Compressor>();
    compressor->deflater = compression.make_deflater(compression, own_bits, own_resets);
    compressor->inflater = compression.make_inflater(compression, peer_bits, peer_resets);
    compressor->threshold = compression.threshold;
    compressor->compression = compression;
    compressor->window_bits = own_bits;
    decoder_.reset(); // a new one inflates
}

void Connection::make_decoder() {
    decoder_ = std::make_unique<Decoder>(role, limits->message,
                                         compressor ? compressor->inflater.get() : nullptr);
}

OutgoingFrame Connection::frame_of(Opcode opcode, Bytes payload, Fragment fragment) {
    using Place = OutgoingFrame::Place;
    OutgoingFrame::Options options{.final = fragment.last, .compressed = false};
    Place place = Place::elsewhere;
    if (fragment.first) {
        sends_compressed =
            compressor && (!fragment.last || payload.size() >= compressor->threshold);
    }
    if (sends_compressed) {
        codec::ByteBuffer& deflated = compressor->deflated;
        deflated.clear(kept_capacity);
        (void)deflated.room(websocket::maximum_frame_header);
        deflated.commit(websocket::maximum_frame_header);
        // Without memory, what was compressed so far is lost, and the peer's window lacks it.
        const bool was_broken = std::exchange(write_broken, true);
        compressor->deflater->deflate(payload, fragment.last, deflated);
        write_broken = was_broken;
        payload = Bytes(deflated.bytes().subspan(websocket::maximum_frame_header));
        options.compressed = fragment.first;
        place = Place::owned;
    }
    return {role, fragment.first ? opcode : Opcode::continuation, payload, options, place};
}

OutgoingFrame Connection::control_frame(Opcode opcode, Bytes payload) const {
    return {role, opcode, payload, {}, OutgoingFrame::Place::elsewhere};
}

Bytes Connection::put_header_before(Opcode opcode, Bytes payload) noexcept {
    const std::size_t size = websocket::FrameHeader::size_of(payload.size());
    if (headroom < size) {
        return {};
    }
    // These bytes are of the connection's own input.
    std::byte* start = const_cast<std::byte*>(payload.data()) - size;
    websocket::FrameHeader::write(start, opcode, payload.size(), {});
    return {start, size + payload.size()};
}

void Connection::deliver(std::span<std::byte> payload) noexcept {
    const std::span<std::byte> input =
        chunk.data() != nullptr ? std::span(chunk.data(), chunk.size()) : std::span(bytes);
    const std::less<const std::byte*> before; // a total order, even of unrelated pointers
    const bool inside = !before(payload.data(), input.data()) &&
                        before(payload.data(), input.data() + input.size());
    delivered = inside ? payload.data() : nullptr;
    headroom = inside ? static_cast<std::uint8_t>(std::min<std::ptrdiff_t>(
                            payload.data() - input.data(), websocket::maximum_frame_header))
                      : 0;
    idle_until = 0;
}

} // namespace penstock::ws::detail
