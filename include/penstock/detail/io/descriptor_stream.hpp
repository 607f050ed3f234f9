#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <penstock/detail/io/descriptor_owner.hpp>
#include <penstock/detail/io/pollable.hpp>
#include <penstock/detail/io/stream_operations.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::detail {

/// Makes a descriptor non-blocking, for every user of the open file description, and wraps it in a
/// pollable. Errors: those of fcntl(2).
[[nodiscard]] Result<std::unique_ptr<Pollable>> adopt_nonblocking(OwnedDescriptor descriptor);

/// Adds reading, with the system calls of `Calls`, to a base. One task at a time reads. A second
/// one gets `device_or_resource_busy`. A cancelled read has consumed nothing.
template <typename Calls, typename Base = DescriptorOwner> class Readable : public Base {
public:
    using Read = ReadOperation<Calls>;
    using Receive = ReceiveOperation<Calls>;
    using ReadExactly = ReadExactlyOperation<Calls>;
    template <std::size_t Count> using ReadParts = ReadPartsOperation<Calls, Count>;
    template <std::size_t Count> using ReadPartsExactly = ReadPartsExactlyOperation<Calls, Count>;

    /// Waits for data and returns the number of bytes read, at most `into.size()`. 0 is the end of
    /// the stream.
    [[nodiscard]] Read read(MutableBytes into) noexcept { return {this->pollable_.get(), into}; }

    /// Reads into several buffers, in order, with one system call: `read(head, rest)`.
    template <typename... Parts>
        requires(sizeof...(Parts) > 1 && (std::convertible_to<Parts, MutableBytes> && ...))
    [[nodiscard]] ReadParts<sizeof...(Parts)> read(Parts&&... parts) noexcept {
        return {this->pollable_.get(), {MutableBytes(std::forward<Parts>(parts))...}};
    }

    /// Reads into a borrowed buffer. An empty chunk is the end of the stream. Cheaper than `read`
    /// for servers with many connections, because a waiting connection holds no buffer.
    [[nodiscard]] Receive receive() noexcept { return Receive(this->pollable_.get()); }

    /// Fills `into` completely. Returns `Error::end_of_stream` if the stream ends first. Bytes that
    /// were read before an error or a cancellation are in the buffer and consumed.
    [[nodiscard]] ReadExactly read_exactly(MutableBytes into) noexcept {
        return {this->pollable_.get(), into};
    }

    /// Fills several buffers, in order: `read_exactly(header, body)`.
    template <typename... Parts>
        requires(sizeof...(Parts) > 1 && (std::convertible_to<Parts, MutableBytes> && ...))
    [[nodiscard]] ReadPartsExactly<sizeof...(Parts)> read_exactly(Parts&&... parts) noexcept {
        return {this->pollable_.get(), {MutableBytes(std::forward<Parts>(parts))...}};
    }

protected:
    using Base::Base;
};

/// Adds writing, with the system calls of `Calls`, to a base. One task at a time writes. A
/// cancelled or failed `write_all` may have written a part.
template <typename Calls, typename Base = DescriptorOwner> class Writable : public Base {
public:
    using Write = WriteOperation<Calls>;
    template <typename Parts> using WriteAll = WriteAllOperation<Calls, Parts>;

    /// Writes what fits now, at least one byte, and returns the count.
    [[nodiscard]] Write write(Bytes from) noexcept { return {this->pollable_.get(), from}; }

    /// Writes all parts, in order, in as few system calls as possible: `write_all(head, body)`.
    template <typename... Parts>
        requires(sizeof...(Parts) > 0 && (std::convertible_to<const Parts&, Bytes> && ...))
    [[nodiscard]] WriteAll<std::array<Bytes, sizeof...(Parts)>>
    write_all(const Parts&... parts) noexcept {
        return {this->pollable_.get(), {Bytes(parts)...}};
    }

    /// The same for a number of parts known only at run time.
    [[nodiscard]] WriteAll<std::span<const Bytes>>
    write_all(std::span<const Bytes> parts) noexcept {
        return {this->pollable_.get(), parts};
    }

protected:
    using Base::Base;
};

} // namespace penstock::detail
