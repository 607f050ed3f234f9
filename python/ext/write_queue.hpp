#pragma once

#include "py_ref.hpp"

#include <cstddef>
#include <deque>

#include <sys/types.h>
#include <sys/uio.h>

namespace penstock::python {

/// What a transport could not send at once, in order. Chunks that are `bytes` are kept as they are;
/// anything mutable has been copied before, so that nobody can change data that is on its way.
class WriteQueue {
public:
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

    /// Bytes that wait.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Keeps `data[offset:]`, where `data` is a bytes object. Throws `std::bad_alloc`.
    void append(PyObject* data, std::size_t offset);

    /// The first chunks as the vector that sendmsg(2) takes; returns how many.
    int fill(iovec* vector, int capacity) const noexcept;

    /// Forgets the first `count` bytes.
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
