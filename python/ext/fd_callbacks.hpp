#pragma once

#include "handle.hpp"

#include <penstock/io/poller.hpp>

namespace penstock::python {

/// What `add_reader` and `add_writer` keep for one descriptor number.
struct FdCallbacks : io::Watch {
    explicit FdCallbacks(LoopObject* owner) noexcept : Watch(&on_ready_event), loop(owner) {}

    static void on_ready_event(io::Watch& watch, std::uint32_t events);

    LoopObject* loop;               ///< borrowed: the loop owns this struct
    HandleObject* reader = nullptr; ///< owned
    HandleObject* writer = nullptr; ///< owned
    PyObject* file_object =
        nullptr; ///< owned; what the user named the descriptor by, if not an int
};

/// One of the two slots of `FdCallbacks`.
struct Direction {
    HandleObject* FdCallbacks::* slot;
    std::uint32_t readiness;
};

constexpr Direction reading{&FdCallbacks::reader, io::readable};
constexpr Direction writing{&FdCallbacks::writer, io::writable};

/// The descriptor number of an int or of an object with `fileno()`; -1 with ValueError set.
int descriptor_of(LoopObject* loop, PyObject* file_object) noexcept;

/// Sets a callback, which replaces (and cancels) the one that was there. Returns the handle, a new
/// reference, or null with an exception set.
PyObject* set_fd_callback(LoopObject* loop, const Direction& direction, PyObject* const* arguments,
                          Py_ssize_t count) noexcept;

/// Takes a callback away: 1 when there was one, 0 when not, -1 with an exception set.
int remove_fd_callback(LoopObject* loop, const Direction& direction,
                       PyObject* file_object) noexcept;

/// Takes all callbacks away: the loop is being closed.
void remove_all_fd_callbacks(LoopObject* loop) noexcept;

} // namespace penstock::python
