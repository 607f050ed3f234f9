#pragma once

#include "uring_module.hpp"

#include <cstddef>
#include <cstdint>

struct io_uring_buf_ring;

namespace penstock::python {

struct RingObject;

/// penstock._uring.BufferRing: buffers that the kernel picks from when data arrives, so that a
/// thousand idle connections need none.
///
/// A buffer belongs to the kernel until a completion names it, then to the program until `take`.
struct BufferRingObject {
    PyObject_HEAD RingObject* ring; ///< owned; null once unregistered
    io_uring_buf_ring* entries;
    std::byte* memory;
    unsigned char* lent; ///< whether the program has the buffer, by its number
    std::size_t size;    ///< of a buffer
    std::uint32_t count;
    std::uint32_t given; ///< to the kernel, over all time: the tail that it sees
    std::uint32_t with_program;
    std::uint16_t group;
};

/// Registers new buffers with the ring; null with an exception set.
PyObject* make_buffer_ring(RingObject* ring, std::uint32_t count, std::size_t size,
                           std::uint16_t group) noexcept;

/// A completion has named the buffer.
void lend(BufferRingObject* buffers, std::uint32_t index) noexcept;

/// Whether the buffers are registered with this ring. False with an exception set.
bool check_belongs(const BufferRingObject* buffers, const RingObject* ring) noexcept;

inline std::uint16_t group_of(const BufferRingObject* buffers) noexcept {
    return buffers->group;
}

} // namespace penstock::python
