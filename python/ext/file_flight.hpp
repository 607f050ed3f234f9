#pragma once

#include "file_operation.hpp"

namespace penstock::python {

/// Hands an operation to the engine: it is in flight then, or complete with the engine's refusal.
void hand_to_engine(FileOperationObject* operation) noexcept;

/// The engine's word that an operation has ended; for its request.
void on_complete(io::FileOperation& request, std::int64_t answer);

/// Has the engine leave undone what it can. Closing is always done.
void cut_short(FileOperationObject* operation) noexcept;

/// Whether it may wait for something that never happens, such as a pipe's other end. A write to a file ends,
/// and is not to be lost.
bool may_never_end(const FileOperationObject* operation) noexcept;

/// Whether anything in flight uses a descriptor, leaving out closings. Needs the GIL only, not the
/// loop's thread.
bool is_in_use(const FileEngineObject* engine, int fd) noexcept;

/// Closes a descriptor that nobody wants any more: at once if nothing uses it, else when the last
/// operation on it has ended. False with an exception set. From any thread.
bool close_unwanted(FileEngineObject* engine, int fd) noexcept;

} // namespace penstock::python
