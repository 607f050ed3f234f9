#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace penstock {

/// Received bytes in a borrowed buffer, which goes back when the chunk ends.
///
/// The buffer is taken when data is there, not when a task begins to wait: a thousand idle connections
/// hold none, and a server that is done with each chunk before it waits again uses one warm buffer for
/// all of them.
class [[nodiscard]] Chunk {
public:
    /// The most that one chunk holds.
    static constexpr std::size_t capacity = std::size_t{256} * 1024;

    Chunk() = default;
    Chunk(Chunk&& other) noexcept
        : buffer_(std::exchange(other.buffer_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Chunk& operator=(Chunk&& other) noexcept {
        std::swap(buffer_, other.buffer_);
        std::swap(size_, other.size_);
        return *this;
    }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;
    ~Chunk() {
        if (buffer_ != nullptr) {
            give_back();
        }
    }

    [[nodiscard]] std::byte* data() const noexcept { return buffer_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::byte* begin() const noexcept { return buffer_; }
    [[nodiscard]] std::byte* end() const noexcept { return buffer_ + size_; }

    /// For operations: takes a buffer, if there is none yet, and returns all of it; nothing when there
    /// is no memory.
    [[nodiscard]] std::span<std::byte> borrow() noexcept;

    /// For operations: how much of the buffer holds data; with 0 it goes back.
    void resize(std::size_t size) noexcept {
        size_ = size;
        if (size == 0 && buffer_ != nullptr) {
            give_back();
        }
    }

private:
    void give_back() noexcept;

    std::byte* buffer_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace penstock
