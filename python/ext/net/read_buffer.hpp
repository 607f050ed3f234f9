#pragma once

#include "core/loop.hpp"

#include <cstddef>
#include <utility>

namespace penstock::python {

/// Memory to receive into. All reads of a loop use the same warm buffer, one at a time. The rule
/// for its use is stated at `step` (waiting_task.hpp).
///
/// A read takes the buffer from the loop and returns it when done, so that no two reads ever use
/// the same memory. Received data may therefore stay here while Python code runs. That code may
/// read other sockets: those reads find the buffer taken and allocate. Data that must outlive this
/// object has to be copied. Under AddressSanitizer the buffer is poisoned while no read has it.
/// Rejected: one shared pointer, with the rule to copy before Python code runs, which three places
/// violated.
///
/// On the loop's thread only. The caller must keep the loop alive.
class ReadBuffer {
public:
    static constexpr std::size_t size = LoopObject::read_buffer_size;

    /// Takes the loop's buffer, or allocates when another read has it. `data` is null when there is
    /// no memory.
    explicit ReadBuffer(LoopObject* loop) noexcept;

    /// The loop's buffer, or none when another read has it.
    static ReadBuffer if_free(LoopObject* loop) noexcept;

    /// For a read that has its own memory.
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

/// Drops the buffer when the loop is closed. A read that has it then frees it.
void drop_read_buffer(LoopObject* loop) noexcept;

} // namespace penstock::python
