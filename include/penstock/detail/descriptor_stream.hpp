#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <penstock/bytes.hpp>
#include <penstock/detail/pollable.hpp>
#include <penstock/detail/stream_operations.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>

namespace penstock::detail {

/// A pollable of a descriptor that may be blocking still: it is made non-blocking, for all who share
/// the open file description. Errors: fcntl(2)'s.
[[nodiscard]] Result<std::unique_ptr<Pollable>> adopt_waitable(OwnedDescriptor descriptor);

/// What has a descriptor that tasks wait for; the base of streams. It belongs to the loop on which it
/// first had to wait, and to that loop's thread; until then it may be handed to another one.
class DescriptorOwner {
public:
    /// Closes it. Who still waits gets `operation_canceled`; later operations get
    /// `bad_file_descriptor`. An operation that was made and not yet awaited must not be awaited any
    /// more: it refers to what was open.
    void close() noexcept { pollable_.reset(); }

    [[nodiscard]] bool is_open() const noexcept { return pollable_ != nullptr; }

    /// The descriptor, which stays owned; -1 when closed.
    [[nodiscard]] int native_handle() const noexcept {
        return pollable_ ? pollable_->descriptor() : -1;
    }

protected:
    DescriptorOwner() = default;
    explicit DescriptorOwner(std::unique_ptr<Pollable> pollable) noexcept
        : pollable_(std::move(pollable)) {}

    std::unique_ptr<Pollable> pollable_;
};

/// Adds reading by `Calls` to a base. One task at a time reads; a second one is told
/// `device_or_resource_busy`. A cancelled read has taken nothing.
template <typename Calls, typename Base = DescriptorOwner> class Readable : public Base {
public:
    using Read = ReadOperation<Calls>;
    using Receive = ReceiveOperation<Calls>;
    using ReadExactly = ReadExactlyOperation<Calls>;
    template <std::size_t Count> using ReadParts = ReadPartsOperation<Calls, Count>;
    template <std::size_t Count> using ReadPartsExactly = ReadPartsExactlyOperation<Calls, Count>;

    /// Waits until there are bytes and yields how many it took, at most `into.size()`; 0 at the end of
    /// the stream.
    [[nodiscard]] Read read(MutableBytes into) noexcept { return {this->pollable_.get(), into}; }

    /// The same into several parts, one after the other, in one system call: `read(head, rest)`.
    template <typename... Parts>
        requires(sizeof...(Parts) > 1 && (std::convertible_to<Parts, MutableBytes> && ...))
    [[nodiscard]] ReadParts<sizeof...(Parts)> read(Parts&&... parts) noexcept {
        return {this->pollable_.get(), {MutableBytes(std::forward<Parts>(parts))...}};
    }

    /// The same into a borrowed buffer: an empty chunk is the end of the stream. Cheaper than `read`
    /// for servers of many connections, because a waiting connection holds no buffer.
    [[nodiscard]] Receive receive() noexcept { return Receive(this->pollable_.get()); }

    /// Fills all of `into`; `Error::end_of_stream` when the stream ends before. What was read before
    /// an error or a cancellation is in the buffer, and gone from the stream.
    [[nodiscard]] ReadExactly read_exactly(MutableBytes into) noexcept {
        return {this->pollable_.get(), into};
    }

    /// Fills several parts, one after the other: `read_exactly(header, body)`.
    template <typename... Parts>
        requires(sizeof...(Parts) > 1 && (std::convertible_to<Parts, MutableBytes> && ...))
    [[nodiscard]] ReadPartsExactly<sizeof...(Parts)> read_exactly(Parts&&... parts) noexcept {
        return {this->pollable_.get(), {MutableBytes(std::forward<Parts>(parts))...}};
    }

protected:
    using Base::Base;
};

/// Adds writing by `Calls` to a base. One task at a time writes. A cancelled or failed `write_all` may
/// have written a part.
template <typename Calls, typename Base = DescriptorOwner> class Writable : public Base {
public:
    using Write = WriteOperation<Calls>;
    template <typename Parts> using WriteAll = WriteAllOperation<Calls, Parts>;

    /// Writes what there is room for now, at least one byte, and yields how much that was.
    [[nodiscard]] Write write(Bytes from) noexcept { return {this->pollable_.get(), from}; }

    /// Writes all parts, in order, in as few system calls as they fit: `write_all(head, body)`.
    template <typename... Parts>
        requires(sizeof...(Parts) > 0 && (std::convertible_to<const Parts&, Bytes> && ...))
    [[nodiscard]] WriteAll<std::array<Bytes, sizeof...(Parts)>>
    write_all(const Parts&... parts) noexcept {
        return {this->pollable_.get(), {Bytes(parts)...}};
    }

    /// The same for a number of parts that is known only when the program runs.
    [[nodiscard]] WriteAll<std::span<const Bytes>>
    write_all(std::span<const Bytes> parts) noexcept {
        return {this->pollable_.get(), parts};
    }

protected:
    using Base::Base;
};

} // namespace penstock::detail
