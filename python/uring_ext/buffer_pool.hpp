#pragma once

#include "module.hpp"

#include <cstddef>
#include <cstdint>

#include <sys/uio.h>

namespace penstock::python::uring {

struct RingObject;

/// penstock._uring.BufferPool: buffers of one size in one mapping.
struct BufferPoolObject {
    PyObject_HEAD ModuleState* state;
    PyObject* buffers;  ///< owned: a tuple of PoolBuffer, each of which owns the pool
    std::byte* memory;  ///< null once closed
    std::byte* mapping; ///< contains `memory`, which starts at its alignment
    std::size_t mapped;
    std::size_t count;
    std::size_t size;   ///< of a buffer that was not resized
    std::size_t stride; ///< distance between two buffers
    std::size_t alignment;
    std::size_t exports;       ///< of all buffers
    std::size_t registrations; ///< number of rings that have registered the pool
    std::size_t search_from;
    bool wants_registration;
};

/// The pool of a PoolBuffer, and the buffer's index.
BufferPoolObject* pool_of(PyObject* buffer) noexcept;
std::size_t index_of(PyObject* buffer) noexcept;

/// The memory of one buffer of an open pool.
iovec part_of(const BufferPoolObject* pool, std::size_t index) noexcept;

/// Registers the pool's buffers with the ring. False with an exception set.
bool register_pool(RingObject* ring, BufferPoolObject* pool) noexcept;

} // namespace penstock::python::uring
