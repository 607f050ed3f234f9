#pragma once

namespace penstock::detail {

/// Told once that a connection has something to read, its end among it, while no operation waits to
/// read. So an idle connection needs no coroutine. It is embedded in its owner, which takes it back
/// (`StreamSocket::watch_input`) before it goes.
struct InputHook {
    /// Called by the dispatcher, last of all: it may run what it likes, and close the connection.
    using Function = void (*)(InputHook&) noexcept;

    explicit InputHook(Function function) noexcept : on_input(function) {}

    Function on_input;
};

} // namespace penstock::detail
