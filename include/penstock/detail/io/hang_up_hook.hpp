#pragma once

namespace penstock::detail {

/// Told once that the peer of a connection has ended its side or reset the connection, while no
/// operation waits to read: who waits gets the end itself. It is embedded in its owner, which takes
/// it back (`StreamSocket::watch_hang_up`) before it goes.
///
/// The kernel reports the end behind bytes that nobody has read (EPOLLRDHUP), so nothing needs to
/// be read ahead for it. It does not see past a full receive window.
struct HangUpHook {
    /// Called by the dispatcher. It may cancel tasks, and must not run them.
    using Function = void (*)(HangUpHook&, bool reset) noexcept;

    explicit HangUpHook(Function function) noexcept : on_hang_up(function) {}

    Function on_hang_up;
};

} // namespace penstock::detail
