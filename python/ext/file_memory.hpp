#pragma once

#include "file_operation.hpp"

namespace penstock::python {

/// An operation on a file opened with O_DIRECT (open(2)).
inline bool needs_alignment(const FileOperationObject* operation) noexcept {
    return operation->alignment > 1;
}

inline bool is_aligned(const FileOperationObject* operation, std::int64_t value) noexcept {
    return value % operation->alignment == 0;
}

/// Gives the operation a new bytes object of its `size` to read into, or aligned memory where the
/// file needs that. False with an exception set.
bool allocate_bytes(FileOperationObject* operation) noexcept;

/// Makes the operation read into or write from a buffer, which stays exported until the engine has
/// let go of it. False with an exception set: also for one that is not aligned as the file needs.
bool export_buffer(FileOperationObject* operation, PyObject* buffer, bool writable) noexcept;

/// ValueError when the operation's size or offset do not fit the file's alignment.
bool check_alignment(const FileOperationObject* operation) noexcept;

} // namespace penstock::python
