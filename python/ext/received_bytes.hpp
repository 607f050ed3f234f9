#pragma once

#include "loop.hpp"

#include <algorithm>
#include <cstddef>

#include <sys/types.h>

namespace penstock::python {

/// What one read brought: a bytes object for `data_received`, and its room for another read.
///
/// Small reads go through the loop's shared buffer into a fresh bytes object of just their size. For
/// larger ones, copying and allocating cost as much as the loop does otherwise: those are received
/// straight into a bytes object, and when nobody has kept that object after `data_received`, the next
/// read uses it again. Whoever kept it has an ordinary bytes object, at most twice its size in
/// memory.
class ReceivedBytes {
public:
    /// Reads from a socket. `hint` is what the last read's `next_hint` said.
    ReceivedBytes(LoopObject* loop, int fd, std::size_t hint) noexcept;
    ~ReceivedBytes();
    ReceivedBytes(const ReceivedBytes&) = delete;
    ReceivedBytes& operator=(const ReceivedBytes&) = delete;

    /// What recv(2) returned: a length, 0 at the end, -1 with errno kept in `error`.
    [[nodiscard]] ssize_t count() const noexcept { return count_; }
    [[nodiscard]] int error() const noexcept { return error_; }

    /// How much the next read may bring: twice as much when this one filled its room, and not much
    /// less than before when it did not, since the parts of a large message differ.
    [[nodiscard]] std::size_t next_hint() const noexcept {
        const auto size = static_cast<std::size_t>(count_);
        return capacity_ == size ? std::min(2 * size, LoopObject::read_buffer_size)
                                 : std::max(size, hint_ - hint_ / 8);
    }

    /// The bytes; null with MemoryError set when there was no memory for them.
    [[nodiscard]] PyObject* data() const noexcept { return data_; }

private:
    void receive_and_copy(int fd) noexcept;
    void receive_in_place(int fd) noexcept;

    LoopObject* loop_;
    std::size_t hint_;
    PyObject* data_ = nullptr;
    std::size_t capacity_ = 0; ///< of `data_`, when it may be used again
    ssize_t count_ = 0;
    int error_ = 0;
};

} // namespace penstock::python
