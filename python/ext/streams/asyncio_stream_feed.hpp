#pragma once

#include "awaitable/direct_steps.hpp"
#include "core/module.hpp"

#include <cstddef>

namespace penstock::python {

/// A weak reference to the reader of `protocol`, when both are of asyncio's own stream classes and
/// not of subclasses, which may override methods; otherwise null. A new reference. Reader and
/// protocol become instances of the subclasses whose waits are native.
PyObject* asyncio_reader_of(ModuleState* state, PyObject* protocol) noexcept;

/// `StreamReaderProtocol.data_received(data)` for `reader`, a reference from `asyncio_reader_of`.
/// It saves three Python frames and a bytes object for each read. False with an exception set.
bool feed_asyncio_reader(ModuleState* state, PyObject* reader, const char* data, std::size_t size,
                         Feeding feeding) noexcept;

} // namespace penstock::python
