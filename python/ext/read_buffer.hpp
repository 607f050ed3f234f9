#pragma once

#include "loop.hpp"

#include <cstddef>
#include <utility>

namespace penstock::python {

/// Memory to receive into: all of a loop's reads go through the same warm buffer, one at a time. The rule
/// that it stands for is told at `step` (waiting_task.hpp).
///
/// Whoever reads takes the buffer away from the loop and gives it back when done, so that no two readers
/// ever hold the same memory. What was received may therefore stay here while Python code runs, which may
/// read other sockets: those find the buffer taken and get memory of their own. What is to outlive the
/// object must have been copied; under AddressSanitizer the buffer cannot be looked into while nobody
/// has it. (Tried before: one pointer for all, to be copied from before Python code runs. Three places
/// forgot.)
///
/// On the loop's thread only. The loop must be kept alive meanwhile.
class ReadBuffer {
public:
    static constexpr std::size_t size = LoopObject::read_buffer_size;

    /// Takes the loop's buffer or, when somebody has it, memory of its own. Without memory there is none.
    explicit ReadBuffer(LoopObject* loop) noexcept;

    /// The loop's buffer, unless somebody has it.
    static ReadBuffer if_free(LoopObject* loop) noexcept;

    /// For a read that has memory of its own.
    static ReadBuffer none() noexcept { return {nullptr, nullptr}; }

    ~ReadBuffer();
    ReadBuffer(ReadBuffer&& other) noexcept
        : loop_(other.loop_), memory_(std::exchange(other.memory_, nullptr)) {}
    ReadBuffer(const ReadBuffer&) = delete;
    ReadBuffer& operator=(const ReadBuffer&) = delete;
    ReadBuffer& operator=(ReadBuffer&&) = delete;

    /// `size` bytes, or null.
    [[nodiscard]] char* data() const noexcept { return memory_; }

private:
    ReadBuffer(LoopObject* loop, char* memory) noexcept : loop_(loop), memory_(memory) {}

    LoopObject* loop_;
    char* memory_;
};

/// Makes a new loop's buffer. False with MemoryError set.
bool make_read_buffer(LoopObject* loop) noexcept;

/// Lets go of it, when the loop is closed. Whoever has it at that moment frees it.
void drop_read_buffer(LoopObject* loop) noexcept;

} // namespace penstock::python
