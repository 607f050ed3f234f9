#pragma once

#include "file_objects/file_object.hpp"

namespace penstock::python {

/// A file that was opened for reading from the page cache, with the usual buffer: an object of
/// `penstock.files.BinaryFile`. It takes over the descriptor only when it succeeds. Null with an
/// exception set.
struct OpenedFile {
    FileEngineObject* engine;
    PyObject* name;
    PyObject* mode;
    int fd;
    long long size;
    long long block_size;
};
PyObject* make_binary_file(ModuleState* state, const OpenedFile& opened) noexcept;

/// A text file over it: an object of `penstock.files.TextFile`, in universal newlines mode. Null
/// with an exception set.
PyObject* make_text_file(ModuleState* state, PyObject* binary, PyObject* mode,
                         PyObject* encoding) noexcept;

} // namespace penstock::python
