#pragma once

#include <cstdint>

namespace penstock::io {

/// Limits of a file engine. The defaults suit programs; tests make them small.
struct FileEngineOptions {
    /// The largest number of worker threads. A thread is started when there is work and no idle
    /// thread. 0: four for each processor, but 8 to 32, which keeps a disk's queue filled. These
    /// threads never wait for another process. Opens of FIFOs and transfers to terminals, which
    /// may, have further threads: one for each that waits at the moment.
    unsigned max_threads = 0;

    /// How long a thread without work stays, in milliseconds.
    unsigned idle_milliseconds = 2000;

    /// The length of the ring's submission queue: a power of two, 4 to 32768. The completion queue
    /// is four times as long.
    unsigned ring_entries = 256;

    /// The largest number of bytes that one system call is asked to transfer. The default is the
    /// kernel's own limit (MAX_RW_COUNT, read(2)). A small number makes every transfer a short one.
    std::uint32_t max_transfer = 0x7ffff000;
};

} // namespace penstock::io
