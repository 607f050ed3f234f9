#pragma once

#include "module.hpp"

#include <cstddef>

namespace penstock::python {

/// Whether `waiter`, a reader's `_waiter`, is a native read that waits and may be resumed.
bool waits_natively(const ModuleState* state, PyObject* waiter) noexcept;

/// Resumes the task that waits in `waiter`, a native read of the reader with these attributes, here and
/// now: only where no task runs. What it does not take of `data` ends up behind the reader's `_buffer`,
/// which is empty, and wakes whoever waits by then. False with an exception set.
bool resume_native_read(ModuleState* state, PyObject* waiter, PyObject* attributes,
                        const char* data, std::size_t size) noexcept;

/// `StreamReader._wakeup_waiter`, where `waiter` is the reader's `_waiter`: it goes on in the next iteration.
/// False with an exception set.
bool wake_waiter(const ModuleState* state, PyObject* attributes, PyObject* waiter) noexcept;

/// Puts bytes behind a reader's `_buffer`, a bytearray. False with an exception set.
bool append_to_buffer(PyObject* buffer, const char* data, std::size_t size) noexcept;

} // namespace penstock::python
