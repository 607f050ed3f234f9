#pragma once

#include "file_objects/file_step.hpp"

namespace penstock::python {

// What the methods of a binary file wait for where neither its buffer nor the page cache suffices:
// one operation of the engine, without a coroutine of Python. `FileMethod::wait` of each. All of
// them leave pipes, files in append mode and those open with O_DIRECT to the coroutine methods.

FileWait wait_for_read(FileObject* file, CallArguments given);
FileWait wait_for_read1(FileObject* file, CallArguments given);
FileWait wait_for_line(FileObject* file, CallArguments given);
FileWait wait_for_next_line(FileObject* file, CallArguments given);
FileWait wait_for_peek(FileObject* file, CallArguments given);
FileWait wait_for_pread(FileObject* file, CallArguments given);
FileWait wait_for_write(FileObject* file, CallArguments given);
FileWait wait_for_flush(FileObject* file, CallArguments given);
FileWait wait_for_truncate(FileObject* file, CallArguments given);

/// Whether the engine's operations can be used without a coroutine method.
bool can_wait(const BinaryFileObject* file) noexcept;

/// `FileWait::take` of what only makes another attempt succeed.
AtOnce attempt_again(FileObject* file, CallArguments given, PyObject* answer, long long asked,
                     PyObject** result);

} // namespace penstock::python
