#pragma once

#include "shared/py_ref.hpp"

#include <cstddef>
#include <deque>

#include <sys/types.h>
#include <sys/uio.h>

namespace penstock::python {

/// The data that a transport could not send at once, in order. `bytes` objects are kept as they
/// are. Mutable data is copied before it is appended, so that no code can change queued data.
///
/// Owns a reference to each object. `consume`, `clear` and the destructor release them, which can
/// run Python code that calls the transport again. `clear` is empty before that happens.
///
/// What `fill` has put into the vector is valid until `consume` or `clear`; an `append` does not
/// move it. Thread safety: with the GIL. Cost: constant for each object.
class WriteQueue {
public:
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

    /// The number of bytes that wait.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Appends `data[offset:]`, where `data` is a bytes object. Throws `std::bad_alloc`.
    void append(PyObject* data, std::size_t offset);

    /// Fills the vector for sendmsg(2) with the first chunks. Returns their number.
    int fill(iovec* vector, int capacity) const noexcept;

    /// Removes the first `count` bytes.
    void consume(std::size_t count) noexcept;

    void clear() noexcept;

private:
    struct Chunk {
        Ref data;
        std::size_t offset;

        [[nodiscard]] char* begin() const noexcept {
            return PyBytes_AS_STRING(data.get()) + offset;
        }
        [[nodiscard]] std::size_t size() const noexcept {
            return static_cast<std::size_t>(PyBytes_GET_SIZE(data.get())) - offset;
        }
    };

    std::deque<Chunk> chunks_;
    std::size_t size_ = 0;
};

} // namespace penstock::python
