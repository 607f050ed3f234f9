#include <penstock/stream/chunk.hpp>

#include <array>
#include <new>

namespace penstock {

namespace {

/// The thread's cache of buffers. It is a stack, so the most recently used buffer, which is in the
/// processor's cache, is reused first.
///
/// It has no destructor, so an access needs no check for initialisation. `Keeper` frees the buffers
/// when the thread ends, and then disables the cache.
struct Spare {
    std::array<std::byte*, 4> buffers{};
    std::size_t count = 0;
    std::size_t room = 0;
    bool ended = false;
};

constinit thread_local Spare spare;

struct Keeper {
    Keeper() { spare.room = spare.buffers.size(); }
    Keeper(const Keeper&) = delete;
    Keeper& operator=(const Keeper&) = delete;
    ~Keeper() {
        while (spare.count > 0) {
            delete[] spare.buffers[--spare.count];
        }
        spare.room = 0;
        spare.ended = true;
    }
};

void start_keeping() {
    static thread_local const Keeper keeper;
}

} // namespace

std::span<std::byte> Chunk::borrow() noexcept {
    if (buffer_ == nullptr) {
        if (spare.count > 0) {
            buffer_ = spare.buffers[--spare.count];
        } else {
            buffer_ = new (std::nothrow) std::byte[capacity]; // not zeroed, so no page is touched
        }
    }
    return {buffer_, buffer_ == nullptr ? 0 : capacity};
}

void Chunk::return_buffer() noexcept {
    std::byte* buffer = std::exchange(buffer_, nullptr);
    size_ = 0;
    if (spare.room == 0 && !spare.ended) {
        start_keeping();
    }
    if (spare.count < spare.room) {
        spare.buffers[spare.count++] = buffer;
    } else {
        delete[] buffer;
    }
}

} // namespace penstock
