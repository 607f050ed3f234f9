#include <penstock/bridge/block_on.hpp>

namespace penstock::detail {

namespace {

/// Whether this thread has destroyed its loop. Without a destructor, so it can be read until the
/// very end: the loop's own destructor runs code of the program, which may call `block_on`.
constinit thread_local bool ended = false;

struct KeptLoop {
    KeptLoop() = default;
    KeptLoop(const KeptLoop&) = delete;
    KeptLoop& operator=(const KeptLoop&) = delete;
    ~KeptLoop() { ended = true; }

    EventLoop loop;
};

EventLoop& kept_loop() {
    static thread_local KeptLoop kept;
    return kept.loop;
}

} // namespace

BlockingLoop::BlockingLoop() : loop_(ended ? &own_.emplace() : &kept_loop()) {}

} // namespace penstock::detail
