#pragma once

#include <penstock/io/intrusive_queue.hpp>

namespace penstock::io {

/// One piece of ready work: a struct that its owner embeds in whatever waits (a Python handle, a
/// coroutine's operation), with the function to call when its turn comes.
///
/// Why an embedded struct and not `std::function`: scheduling must not allocate, and the owner
/// already exists. The owner keeps it alive until it has run or been taken out of the queue.
struct Work {
    using Run = void (*)(Work&);

    explicit Work(Run function) noexcept : run(function) {}

    Run run;
    Work* next = nullptr;
};

using WorkQueue = IntrusiveQueue<Work, &Work::next>;

} // namespace penstock::io
