#pragma once

#include "uring_module.hpp"

#include <cstddef>
#include <cstdint>

#include <sys/uio.h>

namespace penstock::python {

struct RingObject;

/// penstock._uring.BufferPool: buffers of one size in one mapping.
struct BufferPoolObject {
    PyObject_HEAD ModuleState* state;
    PyObject* buffers;  ///< owned: a tuple of PoolBuffer, which own the pool in turn
    std::byte* memory;  ///< null once closed
    std::byte* mapping; ///< where `memory`, moved up to its alignment, lies
    std::size_t mapped;
    std::size_t count;
    std::size_t size;   ///< of a buffer, unless it was resized
    std::size_t stride; ///< from one buffer to the next
    std::size_t alignment;
    std::size_t exports;       ///< of all buffers
    std::size_t registrations; ///< rings that have the pool registered
    std::size_t search_from;
    bool wants_registration;
};

/// The pool of a PoolBuffer, and the buffer's place in it.
BufferPoolObject* pool_of(PyObject* buffer) noexcept;
std::size_t index_of(PyObject* buffer) noexcept;

/// The memory of one buffer of an open pool.
iovec part_of(const BufferPoolObject* pool, std::size_t index) noexcept;

/// Makes the pool's buffers the registered buffers of the ring. False with an exception set.
bool register_pool(RingObject* ring, BufferPoolObject* pool) noexcept;

} // namespace penstock::python
