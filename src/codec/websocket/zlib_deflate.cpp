#include <penstock/codec/websocket/deflate.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include <zlib.h>

namespace penstock::codec::websocket {

namespace {

/// The end of a stored block of no bytes, which every message ends with and which is not sent (RFC
/// 7692, 7.2.1).
constexpr std::array<std::byte, 4> tail{std::byte{0}, std::byte{0}, std::byte{0xff},
                                        std::byte{0xff}};

/// zlib has no raw deflate with a window of 2^8 bytes. With 2^9 it looks back at most 512 - 262 =
/// 250 bytes, which such a window holds.
int window_for_zlib(int bits) noexcept {
    return std::max(bits, 9);
}

// zlib's input is not const by default; it is not written.
Bytef* input_of(std::span<const std::byte> data) noexcept {
    return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data.data()));
}

uInt size_for_zlib(std::uint64_t size) noexcept {
    return static_cast<uInt>(std::min<std::uint64_t>(size, std::numeric_limits<uInt>::max()));
}

} // namespace

struct Inflater::Stream {
    explicit Stream(int window_bits) {
        if (inflateInit2(&z, -window_for_zlib(window_bits)) != Z_OK) {
            throw std::bad_alloc();
        }
    }
    ~Stream() { inflateEnd(&z); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// A block that ends a deflate stream does not end the window (RFC 7692, 7.2.3.4). Rejected:
    /// `inflateGetDictionary` and `inflateSetDictionary`, which copy the window twice for two bytes
    /// of a message, so that a peer gets seconds of work for 1 MiB.
    [[nodiscard]] bool continue_after_end() noexcept { return inflateResetKeep(&z) == Z_OK; }

    z_stream z{};
};

Inflater::Inflater(int window_bits, bool no_context_takeover) noexcept
    : window_bits_(window_bits), no_context_takeover_(no_context_takeover) {}
Inflater::~Inflater() = default;

MessageInflater::Outcome Inflater::feed(std::span<const std::byte> data, ByteBuffer& output,
                                        std::uint64_t limit) {
    z_stream& z = stream_->z;
    do {
        z.next_in = input_of(data);
        z.avail_in = size_for_zlib(data.size());
        const std::size_t offered = z.avail_in;
        // Room for one byte beyond the limit shows that there is one.
        const std::span<std::byte> room = output.room(
            std::max<std::size_t>(256, std::min<std::size_t>(data.size() * 3, 1 << 20)));
        const std::uint64_t allowed = limit - output.size();
        z.next_out = reinterpret_cast<Bytef*>(room.data());
        z.avail_out = size_for_zlib(allowed < room.size() ? allowed + 1 : room.size());
        const uInt space = z.avail_out;
        const int result = ::inflate(&z, Z_SYNC_FLUSH);
        output.commit(space - z.avail_out);
        data = data.subspan(offered - z.avail_in);
        if (output.size() > limit) {
            return Outcome::too_large;
        }
        if (result == Z_STREAM_END) {
            if (!stream_->continue_after_end()) {
                return Outcome::invalid;
            }
        } else if (result == Z_MEM_ERROR) {
            throw std::bad_alloc();
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            return Outcome::invalid;
        } else if (z.avail_out != 0 && data.empty()) {
            return Outcome::done;
        }
    } while (true);
}

MessageInflater::Outcome Inflater::inflate(std::span<const std::byte> data, bool last,
                                           ByteBuffer& output, std::uint64_t limit) {
    if (!stream_) {
        stream_ = std::make_unique<Stream>(window_bits_);
    }
    if (!data.empty()) {
        if (const Outcome outcome = feed(data, output, limit); outcome != Outcome::done) {
            return outcome;
        }
    }
    if (!last) {
        return Outcome::done;
    }
    if (const Outcome outcome = feed(tail, output, limit); outcome != Outcome::done) {
        return outcome;
    }
    // The message must end between two blocks; its last block would otherwise swallow the next
    // message.
    constexpr int between_blocks = 128;
    if ((stream_->z.data_type & between_blocks) == 0) {
        return Outcome::invalid;
    }
    if (no_context_takeover_ && inflateReset(&stream_->z) != Z_OK) {
        return Outcome::invalid;
    }
    return Outcome::done;
}

struct Deflater::Stream {
    Stream(int window_bits, const Options& options) {
        if (deflateInit2(&z, options.level, Z_DEFLATED, -window_for_zlib(window_bits),
                         options.memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
            throw std::bad_alloc();
        }
    }
    ~Stream() { deflateEnd(&z); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    z_stream z{};
};

Deflater::Deflater(int window_bits, bool no_context_takeover, Options options) noexcept
    : options_(options), window_bits_(window_bits), no_context_takeover_(no_context_takeover) {}
Deflater::~Deflater() = default;

void Deflater::deflate(std::span<const std::byte> data, bool last, ByteBuffer& output) {
    if (!stream_) {
        stream_ = std::make_unique<Stream>(window_bits_, options_);
    }
    if (data.empty() && !inside_message_) {
        // A flush without data may write nothing, but an empty message has one byte (RFC 7692,
        // 7.2.3.6).
        if (last) {
            constexpr std::array empty{std::byte{0}};
            output.append(empty);
        }
        return;
    }
    z_stream& z = stream_->z;
    std::size_t room_wanted = data.size() / 2 + 64;
    do {
        z.next_in = input_of(data);
        z.avail_in = size_for_zlib(data.size());
        const std::size_t offered = z.avail_in;
        const std::span<std::byte> room = output.room(room_wanted);
        z.next_out = reinterpret_cast<Bytef*>(room.data());
        z.avail_out = size_for_zlib(room.size());
        const uInt space = z.avail_out;
        const bool all = offered == data.size();
        (void)::deflate(&z, last && all ? Z_SYNC_FLUSH : Z_NO_FLUSH);
        output.commit(space - z.avail_out);
        data = data.subspan(offered - z.avail_in);
        room_wanted = 1024;
    } while (!data.empty() || z.avail_out == 0);
    inside_message_ = !last; // and it has data
    if (last) {
        output.truncate(output.size() - tail.size());
        if (no_context_takeover_) {
            deflateReset(&z);
        }
    }
}

void Deflater::forget() noexcept {
    if (stream_) {
        deflateReset(&stream_->z);
    }
}

} // namespace penstock::codec::websocket
