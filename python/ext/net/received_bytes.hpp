#pragma once

#include "core/loop.hpp"

#include <algorithm>
#include <cstddef>

#include <sys/types.h>

namespace penstock::python {

/// The result of one read: a bytes object for `data_received`, and the capacity for another read.
///
/// Small reads go through the loop's shared buffer into a new bytes object of their exact size. For
/// larger reads, copying and allocating would cost as much as the rest of the loop. They are
/// received straight into a bytes object, and the next read reuses that object if the program has
/// dropped it after `data_received`. A program that keeps it has an ordinary bytes object, whose
/// memory is at most twice its size. Whatever was expected, one read takes what has arrived, up to
/// the size of the loop's buffer: parts would each wait for an iteration of a busy loop.
class ReceivedBytes {
public:
    /// Reads from a socket. `hint` is `next_hint` of the previous read.
    ReceivedBytes(LoopObject* loop, int fd, std::size_t hint) noexcept;
    ~ReceivedBytes();
    ReceivedBytes(const ReceivedBytes&) = delete;
    ReceivedBytes& operator=(const ReceivedBytes&) = delete;

    /// The result of recv(2): a length, 0 at the end, or -1 with errno in `error`.
    [[nodiscard]] ssize_t count() const noexcept { return count_; }
    [[nodiscard]] int error() const noexcept { return error_; }

    /// The expected size of the next read: twice this one if it filled its capacity, else not much
    /// less than before, since the parts of a large message differ. It is more than this one, so
    /// that messages of one size do not fill it.
    [[nodiscard]] std::size_t next_hint() const noexcept {
        const auto size = static_cast<std::size_t>(count_);
        const std::size_t expected =
            capacity_ == size ? 2 * size : std::max(size + 1, hint_ - hint_ / 8);
        return std::min(expected, LoopObject::read_buffer_size);
    }

    /// The bytes. Null with MemoryError set when there was no memory for them.
    [[nodiscard]] PyObject* data() const noexcept { return data_; }

private:
    void receive_and_copy(int fd) noexcept;
    void receive_in_place(int fd) noexcept;

    /// Adds the data beyond the capacity that the first call has filled.
    void receive_the_rest(int fd) noexcept;

    LoopObject* loop_;
    std::size_t hint_;
    PyObject* data_ = nullptr;
    std::size_t capacity_ = 0; ///< of `data_`, if it may be reused
    ssize_t count_ = 0;
    int error_ = 0;
};

} // namespace penstock::python
