#pragma once

#include "core/loop.hpp"

namespace penstock::python {

// Tasks that have run their first step when they are returned.
//
// CPython 3.12 and later have them. 3.11 has not: its Task schedules the first step by
// loop.call_soon(step, context=context). The context is an object that nobody else has, so this
// module's call_soon knows that call, keeps the step, and it is called at once. The task is
// asyncio's own on every version: current_task(), all_tasks(), cancel() and the rest are as always.

/// Whether `loop` is one of this module's whose methods that make and schedule tasks are this
/// module's too.
[[nodiscard]] bool may_begin_tasks(const ModuleState* state, PyObject* loop) noexcept;

/// The keyword arguments of Task, for `begin_task`: a dictionary. Null with an exception set.
PyObject* keywords_of_task(PyObject* loop) noexcept;

/// Whether a task would be a plain asyncio.Task: no task factory is set, and the class was not
/// replaced. On 3.11 a loop in debug mode times the first step like any callback, so it begins
/// there.
[[nodiscard]] bool begins_plainly(const LoopObject* loop) noexcept;

/// Makes a task of `coroutine`, which runs in a copy of `context`, and steps it. The context is not
/// entered, and no other task runs. On 3.11 the task is named Request-1, Request-2 and so on: to
/// count its default names costs as much as a tenth of a request. Null with an exception set.
Ref begin_task(LoopObject* loop, PyObject* keywords, PyObject* coroutine,
               PyObject* context) noexcept;

} // namespace penstock::python
