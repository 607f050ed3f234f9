#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <penstock/detail/task/wait_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock {

namespace detail {

/// One direction of a memory stream: a bounded queue of bytes.
class MemoryPipe {
public:
    class Read;
    class Write;

    /// Throws `std::invalid_argument` for a capacity of 0, and `std::bad_alloc`.
    explicit MemoryPipe(std::size_t capacity);
    MemoryPipe(const MemoryPipe&) = delete;
    MemoryPipe& operator=(const MemoryPipe&) = delete;

    /// The pipe of an end that was moved from: closed on both sides.
    [[nodiscard]] static MemoryPipe& closed() noexcept;

    /// After the buffered bytes the reader gets the end of the stream. Writers get `broken_pipe`.
    void close_write() noexcept;
    /// Drops what is buffered. Writers get `broken_pipe`.
    void close_read() noexcept;

private:
    [[nodiscard]] std::size_t pop(MutableBytes into) noexcept;
    void push(Bytes& from) noexcept;

    std::mutex lock_;
    std::vector<std::byte> buffer_; ///< a ring
    std::size_t first_ = 0;
    std::size_t size_ = 0;
    bool write_closed_ = false;
    bool read_closed_ = false;
    WaitQueue readers_;
    WaitQueue writers_;
};

class MemoryPipe::Read final : public WaitOperation<Read, std::size_t> {
public:
    Read(MemoryPipe& pipe, MutableBytes into) noexcept
        : WaitOperation(pipe.lock_, pipe.readers_), pipe_(&pipe), into_(into) {}

    bool try_now(WakeList& wake_list) noexcept;
    [[nodiscard]] Result<std::size_t> result() const noexcept { return count_; }

private:
    friend class MemoryPipe;

    MemoryPipe* pipe_;
    MutableBytes into_;
    std::size_t count_ = 0;
};

class MemoryPipe::Write final : public WaitOperation<Write, void> {
public:
    Write(MemoryPipe& pipe, Bytes from) noexcept
        : WaitOperation(pipe.lock_, pipe.writers_), pipe_(&pipe), from_(from) {}

    bool try_now(WakeList& wake_list) noexcept;
    [[nodiscard]] Result<> result() const noexcept;

private:
    friend class MemoryPipe;

    MemoryPipe* pipe_;
    Bytes from_; ///< what is not written yet
    bool broken_ = false;
};

} // namespace detail

/// One end of a connection in memory, for tests of a protocol and between stages of one program. A
/// `HalfClosable` stream: `BufReader`, `BufWriter`, `copy` and all other functions for streams take
/// it.
///
///     auto [client, server] = MemoryStream::pair();
///
/// Cancellation: a cancelled read has consumed nothing. A cancelled write may have written a part.
///
/// Thread safety: the two ends may be used on different threads and loops. One task at a time reads
/// from an end, and one writes. An end must outlive the tasks that use it.
class MemoryStream {
public:
    static constexpr std::size_t default_capacity = std::size_t{64} * 1024;

    /// Two connected ends. Each direction holds up to `capacity` bytes that are not read yet.
    /// Throws `std::invalid_argument` for a capacity of 0, and `std::bad_alloc`.
    [[nodiscard]] static std::pair<MemoryStream, MemoryStream>
    pair(std::size_t capacity = default_capacity);

    MemoryStream(MemoryStream&&) noexcept = default;
    MemoryStream& operator=(MemoryStream&& other) noexcept {
        if (this != &other) {
            close();
            in_ = std::move(other.in_);
            out_ = std::move(other.out_);
        }
        return *this;
    }
    MemoryStream(const MemoryStream&) = delete;
    MemoryStream& operator=(const MemoryStream&) = delete;
    ~MemoryStream() { close(); }

    /// Waits for data and returns the number of bytes read, at most `into.size()`. 0 is the end of
    /// the stream, which a closed end returns too. Errors: only `operation_canceled`.
    [[nodiscard]] detail::MemoryPipe::Read read(MutableBytes into) noexcept {
        return {in_ ? *in_ : detail::MemoryPipe::closed(), into};
    }

    /// Writes all bytes. Errors: `broken_pipe` if the peer is closed, or this end was shut down.
    [[nodiscard]] detail::MemoryPipe::Write write_all(Bytes from) noexcept {
        return {out_ ? *out_ : detail::MemoryPipe::closed(), from};
    }

    /// Ends the write side: the peer reads the end of the stream after what was written. Reading
    /// continues. Later writes return `broken_pipe`.
    [[nodiscard]] Result<> shutdown() noexcept {
        if (out_) { // not moved from
            out_->close_write();
        }
        return {};
    }

    /// Closes both directions. The peer reads what was written, and then the end.
    void close() noexcept;

private:
    MemoryStream(std::shared_ptr<detail::MemoryPipe> in,
                 std::shared_ptr<detail::MemoryPipe> out) noexcept
        : in_(std::move(in)), out_(std::move(out)) {}

    std::shared_ptr<detail::MemoryPipe> in_;
    std::shared_ptr<detail::MemoryPipe> out_;
};

} // namespace penstock
