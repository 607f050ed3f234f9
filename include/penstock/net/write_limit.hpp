#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::net {

/// How long a write may wait for a peer that does not read: an allowance of time that runs down
/// while the write waits, and that the peer renews by progress.
///
/// Progress is bytes that the peer has acknowledged, or room for the next part: a third of the send
/// buffer. Each acknowledged byte adds 1/`rate` seconds. One check credits at most 128 KiB. The
/// allowance never exceeds `time` and the credit of one check, nor four times `time`: 94 s by
/// default. So a peer that takes `rate` bytes a second is not cut off. A peer that takes nothing is
/// cut off after `time`, and one that stops in the middle after 94 s at the latest.
///
/// Why not a time for each part: the kernel calls a socket writable when a third of its buffer is
/// free, which may be a megabyte, and a receiver acknowledges in steps of 64 to 128 KiB. A healthy
/// client at 3 kB/s acknowledges nothing for 43 s, and its server hears of room after minutes.
struct WriteLimit {
    /// How long a write waits without progress. 0 means no limit, and so does more than 24 days.
    std::chrono::milliseconds time{30'000};
    /// The lowest accepted rate, in bytes a second. 0: any progress renews `time`.
    std::uint32_t rate = 2048;
    /// How many unsent bytes the kernel keeps for a slow peer (TCP_NOTSENT_LOWAT, tcp(7)). A peer
    /// is slow when a write to it has waited for an eighth of `time`. Bytes that are sent and not
    /// acknowledged are not counted. Fast peers keep the kernel's own limit, 4 MiB by default
    /// (tcp_wmem): with less, a large transfer costs up to a half more CPU time. 0: the kernel's
    /// own limit for all peers. No effect on Unix sockets, whose send buffer has 208 KiB.
    std::uint32_t maximum_backlog = 131'072;
};

} // namespace penstock::net
