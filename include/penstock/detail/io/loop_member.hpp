#pragma once

#include <penstock/io/intrusive_list.hpp>

namespace penstock::detail {

/// What is registered with an event loop and may outlive it: a base class of descriptors, and of
/// what else adds watches or timers of its own. Between `EventLoop::add` and `EventLoop::remove`,
/// the loop knows it.
struct LoopMember : io::ListHook<LoopMember> {
    /// Called when the loop is about to end, and is still complete. Takes the member's watches and
    /// timers out, and the member itself. May do so to others.
    using Leave = void (*)(LoopMember&) noexcept;

    explicit LoopMember(Leave function) noexcept : leave(function) {}

    Leave leave;
};

} // namespace penstock::detail
