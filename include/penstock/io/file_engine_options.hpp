#pragma once

#include <cstdint>

namespace penstock::io {

/// How a file engine is made. The defaults are for programs; tests make things small.
struct FileEngineOptions {
    /// Worker threads at most, each started when there is work that no idle one takes. 0: four for each
    /// processor, but 8 to 32: enough to keep a disk's queue filled, few enough to be of no weight.
    /// Those that wait for another process, at a pipe say, do not count, up to 256 of them.
    unsigned max_threads = 0;

    /// Length of the ring's submission queue; a power of two, 4 to 32768. The completion queue is
    /// four times as long.
    unsigned ring_entries = 256;

    /// The most that one system call is asked to move. The default is the kernel's own limit
    /// (MAX_RW_COUNT, read(2)); a small number makes every transfer a short one.
    std::uint32_t max_transfer = 0x7ffff000;

    /// An errno with which the ring is refused as though the kernel had done so; 0 for none.
    int refuse_ring = 0;

    /// So many of the ring's first submissions fail with -EAGAIN, as where the kernel is short of memory.
    unsigned failing_submissions = 0;

    /// Opcodes that count as unknown to the kernel, as bits; their operations go to worker threads.
    std::uint64_t withheld_opcodes = 0;

    /// The kernel counts as older than Linux 6.18, which brought writes that raise no SIGPIPE.
    bool withhold_quiet_writes = false;
};

} // namespace penstock::io
