#pragma once

#include "file_objects/file_step.hpp"

namespace penstock::python {

// What the methods of a binary file wait for where neither its buffer nor the page cache suffices:
// one operation of the engine, without a coroutine of Python. `FileMethod::wait` of each. A pipe
// brings in parts what it is asked for, so a call may wait for several operations, one by one.
// Long reads of pipes are left to the coroutine methods, and so are those that would begin inside a
// block of a file open with O_DIRECT.
//
// The promises, which the coroutine methods keep too:
// - **Order**: a call has the turn from its first attempt on, and until the engine has released its
//   last operation, even if it was cancelled, closed or collected meanwhile. `close` takes its turn
//   as well: it waits for the calls before it.
// - **Position**: it moves when the task takes the result, not before. In append mode it is then
//   the end of the file.
// - **A cancelled read** moves nothing. What it has taken from a pipe, or still takes, is the
//   first of the read-ahead for the next call. A buffer given to `readinto` is filled directly only
//   from a file with positions, which can be read again.
// - **A cancelled or failed write of the buffer** leaves in it what was not written: nothing is
//   written twice (`_drop_written` of the Python class).

FileWait wait_for_read(FileObject* file, CallArguments given);
FileWait wait_for_read1(FileObject* file, CallArguments given);
FileWait wait_for_line(FileObject* file, CallArguments given);
FileWait wait_for_next_line(FileObject* file, CallArguments given);
FileWait wait_for_peek(FileObject* file, CallArguments given);
FileWait wait_for_readinto(FileObject* file, CallArguments given);
FileWait wait_for_pread(FileObject* file, CallArguments given);
FileWait wait_for_write(FileObject* file, CallArguments given);
FileWait wait_for_flush(FileObject* file, CallArguments given);
FileWait wait_for_truncate(FileObject* file, CallArguments given);

// In append mode, only writing the buffer shows where the position is. A seek to the end counts
// what is buffered.
FileWait wait_for_tell(FileObject* file, CallArguments given);
FileWait wait_for_seek(FileObject* file, CallArguments given);

/// Whether the engine's operations can be used without a coroutine method.
bool can_wait(const BinaryFileObject* file) noexcept;

/// `FileWait::take` of what only makes another attempt succeed.
AtOnce attempt_again(FileObject* file, CallArguments given, PyObject* answer, long long asked,
                     PyObject** result);

} // namespace penstock::python
