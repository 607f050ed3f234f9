#pragma once

#include <cstdint>

#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

/// How much may be written to the page cache on the loop's thread, where a small write costs a tenth
/// of the way through the engine.
///
/// A buffered write only copies, as long as the kernel has room for dirty pages: beyond the middle
/// between its two thresholds, balance_dirty_pages() makes writers wait, for up to 200 ms each time
/// (Documentation/admin-guide/sysctl/vm.rst: dirty_background_ratio, dirty_ratio). So the room is
/// looked up in /proc/vmstat, and a part of it is handed out before it is looked up again. A write
/// that took long all the same (a journal's commit, a lock) closes the room for a while.
///
/// The figures are those of the whole machine. A control group with a limit of its own (memory.max and
/// memory.high of cgroup v2) may be made to wait earlier: the first such write is late, and closes the room.
class DirtyRoom {
public:
    /// Whether `bytes` may be written at once; takes them out of the room then.
    bool take(std::int64_t bytes) noexcept;

    /// Tells how long a write took.
    void report(io::MonotonicTime began, io::MonotonicTime ended) noexcept;

private:
    void look_up(io::MonotonicTime now) noexcept;

    std::int64_t room_ = 0;
    io::MonotonicTime next_look_ = 0;
    io::MonotonicTime expires_ = 0;
};

} // namespace penstock::python
