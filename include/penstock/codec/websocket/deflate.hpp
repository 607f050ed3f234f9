#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/websocket/message_decoder.hpp>
#include <penstock/codec/websocket/message_deflater.hpp>

/// Compression of messages (RFC 7692) on zlib. In the CMake component `penstock::deflate`, which
/// exists where zlib does.
namespace penstock::codec::websocket {

/// Decompresses the messages of one connection in one direction. zlib's state, up to 40 KiB, is
/// allocated with the first message. Not thread safe. It cannot be moved: what is left without its
/// window would read the next message wrongly, and nobody would notice.
class Inflater final : public MessageInflater {
public:
    /// `window_bits` is the peer's, 8 to 15. With `no_context_takeover` each message starts afresh.
    Inflater(int window_bits, bool no_context_takeover) noexcept;
    Inflater(Inflater&&) = delete;
    Inflater& operator=(Inflater&&) = delete;
    ~Inflater() override;

    /// Data that refers back beyond the window breaks the agreement of RFC 7692, 7.1.2. zlib
    /// refuses it only where the byte is no longer in the output of the same call; otherwise it is
    /// decompressed as the peer meant it.
    ///
    /// Throws `std::bad_alloc` only. After `invalid` or `too_large` the connection has failed.
    [[nodiscard]] Outcome inflate(std::span<const std::byte> data, bool last, ByteBuffer& output,
                                  std::uint64_t limit) override;

private:
    struct Stream;
    [[nodiscard]] Outcome feed(std::span<const std::byte> data, ByteBuffer& output,
                               std::uint64_t limit);

    std::unique_ptr<Stream> stream_;
    int window_bits_;
    bool no_context_takeover_;
};

/// Compresses the messages of one connection in one direction. zlib's state, up to 256 KiB, is
/// allocated with the first message. Not thread safe. It cannot be moved, as an `Inflater`.
class Deflater final : public MessageDeflater {
public:
    struct Options {
        int level = 6; ///< zlib's, 1 to 9
        int memory_level =
            8; ///< zlib's, 1 to 9: the state has 2^(memory_level + 9) bytes beside the window
    };

    /// `window_bits` is this end's, 8 to 15. With `no_context_takeover` each message starts afresh.
    Deflater(int window_bits, bool no_context_takeover, Options options) noexcept;
    Deflater(int window_bits, bool no_context_takeover) noexcept
        : Deflater(window_bits, no_context_takeover, Options{}) {}
    Deflater(Deflater&&) = delete;
    Deflater& operator=(Deflater&&) = delete;
    ~Deflater() override;

    void deflate(std::span<const std::byte> data, bool last, ByteBuffer& output) override;
    void forget() noexcept override;

private:
    struct Stream;

    std::unique_ptr<Stream> stream_;
    Options options_;
    int window_bits_;
    bool no_context_takeover_;
    bool inside_message_ = false;
};

} // namespace penstock::codec::websocket
