#pragma once

#include "py_ref.hpp"

#include <cstddef>
#include <deque>

namespace penstock::python {

/// The bytes objects of the last reads, for use again once the program has dropped them.
///
/// A program reads batch after batch of one size. Freed together, their memory lies at the end of the
/// heap; the allocator returns it to the system and takes it anew for the next batch, which costs a
/// page fault for each block and more than the read itself. An object is used again only while
/// nobody but this holds it.
class RecycledBytes {
public:
    RecycledBytes() noexcept = default;
    RecycledBytes(const RecycledBytes&) = delete;
    RecycledBytes& operator=(const RecycledBytes&) = delete;
    ~RecycledBytes() { clear(); }

    /// A bytes object of this size with arbitrary contents; empty with an exception set.
    Ref take(Py_ssize_t size) noexcept;

    /// The program will be given `bytes`, of which the first `size` are filled: makes them so long, and
    /// keeps a reference to what may be used again. False with an exception set if there is no memory
    /// for that, and then nothing has changed.
    bool fit(PyObject*& bytes, Py_ssize_t size) noexcept;

    void clear() noexcept;

private:
    void remember(PyObject* bytes) noexcept;

    /// The interpreter's own allocator serves what is smaller, and what is larger gets a mapping of
    /// its own.
    static constexpr Py_ssize_t least = 512;
    static constexpr Py_ssize_t most = Py_ssize_t{64} * 1024;
    static constexpr Py_ssize_t most_memory = Py_ssize_t{4} * 1024 * 1024;

    std::deque<PyObject*> kept_; ///< owned, oldest first
    Py_ssize_t memory_ = 0;
};

} // namespace penstock::python
