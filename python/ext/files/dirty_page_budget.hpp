#pragma once

#include <cstdint>

#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

/// The number of bytes that may be written to the page cache on the loop's thread. There a small
/// write costs a tenth of what it costs through the engine.
///
/// A buffered write only copies while the kernel accepts dirty pages. Beyond the middle between its
/// two thresholds, balance_dirty_pages() makes writers wait, up to 200 ms each time
/// (Documentation/admin-guide/sysctl/vm.rst: dirty_background_ratio, dirty_ratio). So the budget is
/// a part of the free dirty pages in /proc/vmstat, and is read again when it is used up. A write
/// that still takes long (a journal's commit, a lock) empties the budget for a while.
///
/// Limit: the figures are the whole machine's. In a cgroup v2 group with memory.max or memory.high
/// the kernel also derives thresholds from the group's own memory, and may make its writers wait
/// earlier. The first such write blocks the loop for that pause, and empties the budget. Rejected:
/// the group's memory.stat, from which those thresholds can only be estimated (they depend on each
/// ancestor's limit and reclaimable pages).
class DirtyPageBudget {
public:
    /// Whether `bytes` may be written at once; if so, they are taken from the budget.
    bool take(std::int64_t bytes) noexcept;

    /// Notes how long a write took.
    void note_write(io::MonotonicTime began, io::MonotonicTime ended) noexcept;

private:
    void refresh(io::MonotonicTime now) noexcept;

    std::int64_t bytes_left_ = 0;
    io::MonotonicTime next_refresh_ = 0;
    io::MonotonicTime expires_ = 0;
};

} // namespace penstock::python
