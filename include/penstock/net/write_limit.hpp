#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::net {

/// How long a write may wait for a peer that does not take it: an allowance that runs while the
/// write waits, and that the peer renews by progress.
///
/// Progress is what the peer has acknowledged, or room for the next part: a third of the send
/// buffer. Each acknowledged byte adds its share of a second at `rate`, as far as 128 KiB at a
/// time. The allowance is never more than `time` and that share, nor than four times `time`: 94 s
/// by default. So a peer that takes `rate` bytes a second is not cut off, one that takes nothing
/// is after `time`, and one that stops in the middle after 94 s at the latest.
///
/// Why not a time for each part: the kernel calls a socket writable when a third of its buffer is
/// free, which may be a megabyte, and a receiver acknowledges in steps of 64 to 128 KiB. A healthy
/// client at 3 kB/s acknowledges nothing for 43 s, and its server hears of room after minutes.
struct WriteLimit {
    /// How long a write waits without progress. 0 means no limit, and so does more than 24 days.
    std::chrono::milliseconds time{30'000};
    /// The least bytes a second. 0: any progress renews `time`.
    std::uint32_t rate = 2048;
    /// How many unsent bytes the kernel keeps for a peer that is slow: whose write has waited for
    /// an eighth of `time` (TCP_NOTSENT_LOWAT, tcp(7)). What is on its way to the peer comes on
    /// top. Fast peers keep the kernel's own limit, 4 MiB by default (tcp_wmem): with less, a large
    /// transfer costs up to a half more CPU time. 0: the kernel's own limit for all. Unix sockets
    /// have a send buffer of 208 KiB, and this has no effect on them.
    std::uint32_t maximum_backlog = 131'072;
};

} // namespace penstock::net
