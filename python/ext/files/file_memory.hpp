#pragma once

#include "files/file_operation.hpp"

namespace penstock::python {

/// Whether the operation's file was opened with O_DIRECT (open(2)).
inline bool needs_alignment(const FileOperationObject* operation) noexcept {
    return operation->alignment > 1;
}

inline bool is_aligned(const FileOperationObject* operation, std::int64_t value) noexcept {
    return value % operation->alignment == 0;
}

/// Allocates the memory for a read: a bytes object of the operation's `size`, or aligned memory if
/// the file requires that. False with an exception set.
bool allocate_bytes(FileOperationObject* operation) noexcept;

/// Makes the operation read into or write from a buffer, which stays exported until the engine has
/// released it. False with an exception set, even if the buffer is not aligned as the file
/// requires.
bool export_buffer(FileOperationObject* operation, PyObject* buffer, bool writable) noexcept;

/// False with ValueError set when the operation's size or offset is not a multiple of the file's
/// alignment.
bool check_alignment(const FileOperationObject* operation) noexcept;

} // namespace penstock::python
