#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace penstock::codec {

/// A growing buffer of bytes that are not initialised, so that room for a large message costs
/// nothing before its bytes arrive. Keeps its memory when it is cleared.
///
/// Functions that may grow it throw `std::bad_alloc`.
class ByteBuffer {
public:
    ByteBuffer() = default;
    ByteBuffer(ByteBuffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    ByteBuffer& operator=(ByteBuffer&& other) noexcept {
        ByteBuffer taken(std::move(other));
        std::swap(data_, taken.data_);
        std::swap(size_, taken.size_);
        std::swap(capacity_, taken.capacity_);
        return *this;
    }
    ~ByteBuffer() { std::free(data_); }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data_, size_}; }

    /// Room for at least `size` more bytes, and whatever else there is.
    [[nodiscard]] std::span<std::byte> room(std::size_t size) {
        if (capacity_ - size_ < size) {
            grow(size);
        }
        return {data_ + size_, capacity_ - size_};
    }
    /// The first `size` bytes of the last `room` are filled.
    void commit(std::size_t size) noexcept { size_ += size; }

    void append(std::span<const std::byte> bytes) {
        if (!bytes.empty()) {
            std::memcpy(room(bytes.size()).data(), bytes.data(), bytes.size());
            commit(bytes.size());
        }
    }

    /// Forgets the contents and keeps the memory.
    void clear() noexcept { size_ = 0; }
    /// Forgets the contents, and frees the memory if it is more than `keep` bytes.
    void clear(std::size_t keep) noexcept {
        size_ = 0;
        if (capacity_ > keep) {
            std::free(std::exchange(data_, nullptr));
            capacity_ = 0;
        }
    }
    /// Cuts the contents to their first `size` bytes.
    void truncate(std::size_t size) noexcept { size_ = size; }

private:
    void grow(std::size_t size) {
        if (size > static_cast<std::size_t>(-1) / 4 - size_) {
            throw std::bad_alloc();
        }
        std::size_t wanted = capacity_ < 512 ? 512 : capacity_ * 2;
        if (wanted < size_ + size) {
            wanted = size_ + size;
        }
        void* grown = std::realloc(data_, wanted);
        if (grown == nullptr) {
            throw std::bad_alloc();
        }
        data_ = static_cast<std::byte*>(grown);
        capacity_ = wanted;
    }

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

} // namespace penstock::codec
