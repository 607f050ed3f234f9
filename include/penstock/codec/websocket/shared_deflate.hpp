#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/websocket/deflate.hpp>
#include <penstock/codec/websocket/message_decoder.hpp>
#include <penstock/codec/websocket/message_deflater.hpp>

/// Compression without state between messages (RFC 7692, "no context takeover"): zlib's states
/// belong to the thread and are lent for one message, so that a connection that is idle holds none.
/// A thread keeps at most four for each direction.
namespace penstock::codec::websocket {

/// Compresses the messages of one connection, each with a state that the calling thread lends until
/// the message has ended. A peer reads them whether or not that was agreed. Not thread safe.
class SharedDeflater final : public MessageDeflater {
public:
    SharedDeflater(int window_bits, Deflater::Options options) noexcept;
    SharedDeflater(SharedDeflater&&) = delete;
    SharedDeflater& operator=(SharedDeflater&&) = delete;
    ~SharedDeflater() override;

    void deflate(std::span<const std::byte> data, bool last, ByteBuffer& output) override;
    /// Nothing: no message refers to an earlier one.
    void forget() noexcept override {}

private:
    std::unique_ptr<Deflater> lent_; ///< inside a message
    Deflater::Options options_;
    int window_bits_;
};

/// Decompresses the messages of one connection in one direction, in which the peer must have agreed
/// to `no_context_takeover`. Not thread safe.
class SharedInflater final : public MessageInflater {
public:
    explicit SharedInflater(int window_bits) noexcept;
    SharedInflater(SharedInflater&&) = delete;
    SharedInflater& operator=(SharedInflater&&) = delete;
    ~SharedInflater() override;

    /// As `Inflater::inflate`.
    [[nodiscard]] Outcome inflate(std::span<const std::byte> data, bool last, ByteBuffer& output,
                                  std::uint64_t limit) override;

private:
    std::unique_ptr<Inflater> lent_; ///< inside a message
    int window_bits_;
};

} // namespace penstock::codec::websocket
