#pragma once

#include "module.hpp"

#include <cstddef>
#include <cstdint>

struct io_uring_buf_ring;

namespace penstock::python::uring {

struct RingObject;

/// penstock._uring.BufferRing: buffers from which the kernel picks when data arrives, so that idle
/// connections need no buffers.
///
/// A buffer belongs to the kernel until a completion names it, then to the program until `take`.
struct BufferRingObject {
    PyObject_HEAD RingObject* ring; ///< owned; null once unregistered
    io_uring_buf_ring* entries;
    std::byte* memory;
    unsigned char* lent; ///< by number: whether the program has the buffer
    std::size_t size;    ///< of a buffer
    std::uint32_t count;
    std::uint32_t given; ///< buffers given to the kernel so far: the tail that the kernel sees
    std::uint32_t with_program;
    std::uint16_t group;
};

/// Registers new buffers with the ring. Null with an exception set.
PyObject* make_buffer_ring(RingObject* ring, std::uint32_t count, std::size_t size,
                           std::uint16_t group) noexcept;

/// Records that a completion has named the buffer.
void lend(BufferRingObject* buffers, std::uint32_t index) noexcept;

/// Whether the buffers are registered with this ring. False with an exception set.
bool check_belongs(const BufferRingObject* buffers, const RingObject* ring) noexcept;

inline std::uint16_t group_of(const BufferRingObject* buffers) noexcept {
    return buffers->group;
}

} // namespace penstock::python::uring
