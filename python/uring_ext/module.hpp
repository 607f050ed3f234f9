#pragma once

#include "shared/py_ref.hpp"

#include <array>
#include <cstddef>

namespace penstock::python::uring {

/// The parameter names that methods of the ring share; listed in cached_objects.def.
enum class Name : unsigned char {
#define PENSTOCK_NAME(name) name,
#include "cached_objects.def"
    many
};

inline constexpr std::size_t name_count = static_cast<std::size_t>(Name::many);

/// The state of one interpreter's copy of penstock._uring. The module does not import asyncio, so
/// that a program without an event loop need not load it.
struct ModuleState {
#define PENSTOCK_TYPE(member) PyTypeObject* member;
#define PENSTOCK_OBJECT(member) PyObject* member;
#include "cached_objects.def"
    std::array<PyObject*, name_count> names;
};

ModuleState* state_of(PyTypeObject* type) noexcept;
ModuleState* state_of_module(PyObject* module) noexcept;

/// Raises penstock.uring.UringError. Returns null.
PyObject* raise_error(ModuleState* state, int error, const char* format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

bool add_ring_type(PyObject* module, ModuleState* state);
bool add_buffer_pool_types(PyObject* module, ModuleState* state);
bool add_buffer_ring_type(PyObject* module, ModuleState* state);

/// `probe_kernel() -> dict`: what this kernel and this process support.
PyObject* probe_kernel(PyObject* module, PyObject* unused);

/// `read_cached_file(path) -> bytes | int`: a whole regular file from the page cache. A negated
/// errno otherwise; EAGAIN if the ring must read it.
PyObject* read_cached_file(PyObject* module, PyObject* path);

} // namespace penstock::python::uring
