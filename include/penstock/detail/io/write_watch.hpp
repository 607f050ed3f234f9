#pragma once

#include <cstdint>
#include <optional>

#include <penstock/io/timer_queue.hpp>
#include <penstock/net/write_limit.hpp>

namespace penstock {
class EventLoop;
}

namespace penstock::detail {

class Pollable;

/// How many bytes the peer of a TCP socket has acknowledged since the connection began. No value if
/// the socket does not count them.
[[nodiscard]] std::optional<std::uint64_t> acknowledged_bytes(int socket) noexcept;

/// Keeps the `net::WriteLimit` of a socket while an operation waits to write: one timer, and the
/// rest of the allowance. A connection has one from its first wait on; what never waits pays
/// nothing.
///
/// The promise: an operation that waits either goes on, or is interrupted with `timed_out`, and not
/// before the peer has used up its allowance. At expiry the send is tried once more before that:
/// bytes fit long before the kernel reports it. The allowance belongs to the connection: many small
/// writes to a peer that takes a few bytes each time have no more of it than one large write.
///
/// A timer that fires too early, because the allowance has grown or the wait has ended, is set
/// again or forgotten: a flow that waits often changes the timer queue once in a while only.
///
/// What the peer has acknowledged: for TCP, `tcpi_bytes_acked` of TCP_INFO, which counts since the
/// connection began. So it needs no look when a wait begins, and what was acknowledged at once,
/// before the peer fell behind, is credited at the first look. Rejected: SIOCOUTQ for TCP, which
/// needs a count of all accepted bytes in each way to send. For Unix sockets, which have no such
/// count, SIOCOUTQ (unix: the memory of what the peer has not read) from one attempt to the next.
class WriteWatch : private io::Timer {
public:
    WriteWatch(Pollable& pollable, const net::WriteLimit& limit) noexcept;
    WriteWatch(const WriteWatch&) = delete;
    WriteWatch& operator=(const WriteWatch&) = delete;
    /// `stop` was called before.
    ~WriteWatch() = default;

    /// Replaces the limit. What is left of the allowance changes with `time`.
    void set(const net::WriteLimit& limit) noexcept;

    /// An operation begins to wait. Throws `std::bad_alloc`.
    void begin();
    /// The kernel has reported room.
    void on_room() noexcept;
    /// An attempt has left the operation waiting.
    void on_attempt() noexcept;
    /// The operation no longer waits, without an attempt.
    void end() noexcept;
    /// The pollable leaves its loop.
    void stop(EventLoop& loop) noexcept;

private:
    enum class Measure : std::uint8_t { acknowledged, queued };

    static void expire(io::Work& work);
    void look();
    void arm();
    void charge() noexcept;
    void credit() noexcept;
    void restrain() noexcept;
    [[nodiscard]] std::uint64_t gained() noexcept;
    [[nodiscard]] std::uint64_t queued() const noexcept;

    Pollable& pollable_;
    std::int64_t time_ = 0; ///< nanoseconds, as all times here
    std::int64_t left_ = 0; ///< of the allowance, at `since_`
    io::MonotonicTime since_ = 0;
    io::MonotonicTime begun_ = 0; ///< the wait, or its last room
    std::uint64_t seen_ = 0; ///< acknowledged at the last look, or queued after the last attempt
    std::uint32_t rate_ = 0;
    std::uint32_t backlog_ = 0;
    Measure measure_;
    bool restrained_ = false;
};

} // namespace penstock::detail
