#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include <penstock/stream/bytes.hpp>

namespace penstock::fs {

/// A buffer for a file that is open with O_DIRECT (`OpenOptions::direct`): its address and its size
/// are multiples of the alignment.
///
///     fs::AlignedBuffer buffer(1 << 20);
///     co_await file.read_at(0, buffer.bytes());
class AlignedBuffer {
public:
    /// A multiple of every alignment that a device requires.
    static constexpr std::size_t usual_alignment = 4096;

    /// Allocates `size` bytes, rounded up to a multiple of `alignment`, and fills them with zeros.
    /// `alignment` is a power of two. Throws `std::bad_alloc`.
    explicit AlignedBuffer(std::size_t size, std::size_t alignment = usual_alignment)
        : size_((size + alignment - 1) / alignment * alignment),
          memory_(static_cast<std::byte*>(std::aligned_alloc(alignment, size_))) {
        if (memory_ == nullptr && size_ > 0) {
            throw std::bad_alloc();
        }
        std::fill_n(memory_.get(), size_, std::byte{0});
    }

    [[nodiscard]] MutableBytes bytes() noexcept { return {memory_.get(), size_}; }
    [[nodiscard]] Bytes bytes() const noexcept { return {memory_.get(), size_}; }
    [[nodiscard]] std::byte* data() noexcept { return memory_.get(); }
    [[nodiscard]] const std::byte* data() const noexcept { return memory_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    struct Free {
        void operator()(std::byte* memory) const noexcept { std::free(memory); }
    };

    std::size_t size_;
    std::unique_ptr<std::byte[], Free> memory_;
};

} // namespace penstock::fs
