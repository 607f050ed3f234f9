#pragma once

#include "files/file_operation.hpp"

namespace penstock::python {

/// Submits an operation to the engine. Then it is in flight, or complete with the error of an
/// engine that refused it.
void submit(FileOperationObject* operation) noexcept;

/// Passes what was submitted to the kernel and the workers, unless the loop does so before it
/// blocks, or a caller does when it has submitted more.
void submit_prepared(FileEngineObject* engine) noexcept;

/// The completion callback of a request.
void on_complete(io::FileOperation& request, std::int64_t answer);

/// Requests the cancellation of an operation in flight, which still completes. A close is never
/// cancelled.
void request_cancel(FileOperationObject* operation) noexcept;

/// Whether it may wait for something that never happens, such as a pipe's other end. A write to a
/// file always ends, and must not be lost.
bool may_never_end(const FileOperationObject* operation) noexcept;

/// Keeps the descriptor of an operation from being closed while its task has yielded to others. It
/// would use another file of the same number afterwards.
void hold_descriptor(FileOperationObject* operation) noexcept;

/// Ends that; whether it was so. A close that has waited for it may begin then.
bool stop_holding(FileOperationObject* operation) noexcept;

/// Submits the deferred closes whose descriptors are no longer in use.
void start_deferred_closes(FileEngineObject* engine) noexcept;

/// The same while a task runs, from which no other one must be stepped. A raised exception stays
/// raised.
void start_deferred_closes_in_task(FileEngineObject* engine) noexcept;

/// Whether an operation in flight, or one that has yielded, other than a close, uses a descriptor.
/// Call it with the GIL, from any thread.
bool is_in_use(const FileEngineObject* engine, int fd) noexcept;

/// Closes a descriptor without an awaitable: at once if nothing uses it, otherwise when the last
/// operation on it has completed. False with an exception set. From any thread.
bool close_in_background(FileEngineObject* engine, int fd) noexcept;

} // namespace penstock::python
