#pragma once

#include "shared/py_ref.hpp"

#include <cstddef>
#include <deque>

namespace penstock::python::uring {

/// Keeps the bytes objects of the last reads, for reuse once the program has dropped them.
///
/// A program reads many batches of one size. The memory of a batch that is freed at once is at the
/// end of the heap. The allocator returns it to the system and requests it again for the next
/// batch, which costs a page fault for each block and more than the read itself. An object is
/// reused only while nothing else refers to it.
class RecycledBytes {
public:
    RecycledBytes() noexcept = default;
    RecycledBytes(const RecycledBytes&) = delete;
    RecycledBytes& operator=(const RecycledBytes&) = delete;
    ~RecycledBytes() { clear(); }

    /// Returns a bytes object of this size with arbitrary content. Empty with an exception set.
    Ref take(Py_ssize_t size) noexcept;

    /// Shortens `bytes`, which the program will receive, to the first `size` bytes, and keeps a
    /// reference if it can be reused. False with an exception set if there is no memory for that;
    /// nothing has changed then.
    bool fit(PyObject*& bytes, Py_ssize_t size) noexcept;

    void clear() noexcept;

private:
    void remember(PyObject* bytes) noexcept;

    /// The interpreter's own allocator serves smaller objects, and larger ones get a mapping of
    /// their own.
    static constexpr Py_ssize_t least = 512;
    static constexpr Py_ssize_t most = Py_ssize_t{64} * 1024;
    static constexpr Py_ssize_t most_memory = Py_ssize_t{4} * 1024 * 1024;

    std::deque<PyObject*> kept_; ///< owned, oldest first
    Py_ssize_t memory_ = 0;
};

} // namespace penstock::python::uring
