#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace penstock {

/// Received bytes in a borrowed buffer. The destructor returns the buffer.
///
/// The buffer is borrowed when data arrives, not when the task begins to wait. Idle connections
/// therefore hold no buffer. A server that drops each chunk before it waits again uses one warm
/// buffer for all connections.
///
/// Thread safety: a buffer is returned to the thread that destroys the chunk. One chunk is not
/// thread safe.
class [[nodiscard]] Chunk {
public:
    /// The size of a buffer, in bytes.
    static constexpr std::size_t capacity = std::size_t{256} * 1024;

    Chunk() = default;
    Chunk(Chunk&& other) noexcept
        : buffer_(std::exchange(other.buffer_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Chunk& operator=(Chunk&& other) noexcept {
        Chunk taken(std::move(other));
        std::swap(buffer_, taken.buffer_);
        std::swap(size_, taken.size_);
        return *this;
    }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;
    ~Chunk() {
        if (buffer_ != nullptr) {
            return_buffer();
        }
    }

    [[nodiscard]] std::byte* data() const noexcept { return buffer_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::byte* begin() const noexcept { return buffer_; }
    [[nodiscard]] std::byte* end() const noexcept { return buffer_ + size_; }

    /// For operations: borrows a buffer if there is none, and returns all of it. Returns an empty
    /// span if there is no memory.
    [[nodiscard]] std::span<std::byte> borrow() noexcept;

    /// For operations: sets the number of valid bytes. 0 returns the buffer.
    void resize(std::size_t size) noexcept {
        size_ = size;
        if (size == 0 && buffer_ != nullptr) {
            return_buffer();
        }
    }

private:
    void return_buffer() noexcept;

    std::byte* buffer_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace penstock
