#pragma once

#include "core/module.hpp"

#include <cstddef>

namespace penstock::python {

/// Whether `waiter`, a reader's `_waiter`, is a native read that a task waits for.
bool waits_natively(const ModuleState* state, PyObject* waiter) noexcept;

/// Steps the task that waits for `waiter`, a native read of the reader with these attributes. Call
/// it only where no task runs, and with an empty `_buffer`. The part of `data` that the task does
/// not take goes into `_buffer`, and wakes the read that waits then. False with an exception set.
bool resume_native_read(ModuleState* state, PyObject* waiter, PyObject* attributes,
                        const char* data, std::size_t size) noexcept;

/// `StreamReader._wakeup_waiter`, where `waiter` is the reader's `_waiter`: its task is stepped in
/// the next iteration. False with an exception set.
bool wake_waiter(const ModuleState* state, PyObject* attributes, PyObject* waiter) noexcept;

/// Appends to a reader's `_buffer`, a bytearray. False with an exception set.
bool append_to_buffer(PyObject* buffer, const char* data, std::size_t size) noexcept;

} // namespace penstock::python
