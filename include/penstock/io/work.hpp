#pragma once

#include <penstock/io/intrusive_queue.hpp>

namespace penstock::io {

/// A function to run, embedded in what waits for it: a Python handle, a coroutine's operation.
///
/// Why not `std::function`: scheduling must not allocate, and the owner exists already. The owner
/// keeps it alive until it has run or was removed from the queue.
struct Work {
    using Run = void (*)(Work&);

    explicit Work(Run function) noexcept : run(function) {}

    Run run;
    Work* next = nullptr;
};

using WorkQueue = IntrusiveQueue<Work, &Work::next>;

} // namespace penstock::io
