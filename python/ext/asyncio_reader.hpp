#pragma once

#include "module.hpp"

#include <cstddef>

namespace penstock::python {

/// The weak reference to the reader of `protocol`, when both are asyncio's own stream classes (not
/// subclasses, which may have methods of their own); else null. New reference. Both are then made
/// instances of the subclasses whose waits are native.
PyObject* asyncio_reader_of(ModuleState* state, PyObject* protocol) noexcept;

enum class Feeding : unsigned char {
    where_no_task_runs, ///< from the dispatcher: the task that waits may run here and now
    anywhere,
};

/// What `StreamReaderProtocol.data_received(data)` does for `reader`, a reference from
/// `asyncio_reader_of`: without three Python frames and a bytes object for each read.
/// False with an exception set.
bool feed_asyncio_reader(ModuleState* state, PyObject* reader, const char* data, std::size_t size,
                         Feeding feeding) noexcept;

} // namespace penstock::python
