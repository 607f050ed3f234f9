#pragma once

#include "py_ref.hpp"

#include <array>
#include <cstddef>

namespace penstock::python {

/// The parameter names that methods of the ring share.
enum class Name : unsigned char {
    // The options of every operation; the first of them are the bits of its flags.
    user_data,
    link,
    hardlink,
    drain,
    fixed_file,
    force_async,
    skip_success,
    // Parameters.
    fd,
    buffer,
    buffers,
    data,
    offset,
    offsets,
    flags,
    index,
    opcode,
    address,
    length,
    ioprio,
    file_index,
    buffer_index,
    splice_fd,
    yields_fd,
    multishot,
    zero_copy,
    message,
    count,
    size,
    block_size,
    timeout,
    limit,
    target,
    third_address,
    padding,
    address_size,
    control_size,
    many
};

inline constexpr std::size_t name_count = static_cast<std::size_t>(Name::many);

/// What one interpreter's copy of penstock._uring knows. The module does not import asyncio, so a
/// program without an event loop does not pay for one.
struct ModuleState {
    PyTypeObject* ring_type;
    PyTypeObject* buffer_pool_type;
    PyTypeObject* pool_buffer_type;
    PyTypeObject* buffer_ring_type;
    PyTypeObject* message_type; ///< penstock._uring.Message
    PyObject* error_type;       ///< penstock.uring.UringError, imported on first use
    std::array<PyObject*, name_count> names;
};

ModuleState* state_of(PyTypeObject* type) noexcept;
ModuleState* state_of_module(PyObject* module) noexcept;

/// Raises penstock.uring.UringError; returns null.
PyObject* raise_error(ModuleState* state, int error, const char* format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

/// How often this process is the child of a fork: a ring does not outlive its process.
unsigned fork_generation() noexcept;

bool add_ring_type(PyObject* module, ModuleState* state);
bool add_buffer_pool_types(PyObject* module, ModuleState* state);
bool add_buffer_ring_type(PyObject* module, ModuleState* state);

/// `probe_kernel() -> dict`: what this kernel and this process may use.
PyObject* probe_kernel(PyObject* module, PyObject* unused);

/// `read_cached_file(path) -> bytes | int`: a whole regular file if nothing of it has to be waited for;
/// else a negated errno, EAGAIN if the ring can say more.
PyObject* read_cached_file(PyObject* module, PyObject* path);

} // namespace penstock::python
