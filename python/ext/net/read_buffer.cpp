#include "net/read_buffer.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_ADDRESS_SANITIZER
#endif
#if defined(PENSTOCK_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace penstock::python {

namespace {

void forbid_use([[maybe_unused]] const char* memory) noexcept {
#if defined(PENSTOCK_ADDRESS_SANITIZER)
    ASAN_POISON_MEMORY_REGION(memory, ReadBuffer::size);
#endif
}

void allow_use([[maybe_unused]] const char* memory) noexcept {
#if defined(PENSTOCK_ADDRESS_SANITIZER)
    ASAN_UNPOISON_MEMORY_REGION(memory, ReadBuffer::size);
#endif
}

char* allocate() noexcept {
    return static_cast<char*>(PyMem_Malloc(ReadBuffer::size));
}

/// Takes the loop's buffer. Null when a read has it.
char* take(LoopObject* loop) noexcept {
    char* memory = std::exchange(loop->read_buffer, nullptr);
    if (memory != nullptr) {
        allow_use(memory);
    }
    return memory;
}

} // namespace

ReadBuffer::ReadBuffer(LoopObject* loop) noexcept : loop_(loop), memory_(take(loop)) {
    if (memory_ == nullptr) {
        memory_ = allocate();
    }
}

ReadBuffer ReadBuffer::if_free(LoopObject* loop) noexcept {
    return {loop, take(loop)};
}

ReadBuffer::~ReadBuffer() {
    if (memory_ == nullptr) {
        return;
    }
    if (loop_->read_buffer == nullptr && !loop_->closed) {
        forbid_use(memory_);
        loop_->read_buffer = memory_;
    } else {
        PyMem_Free(memory_);
    }
}

bool make_read_buffer(LoopObject* loop) noexcept {
    loop->read_buffer = allocate();
    if (loop->read_buffer == nullptr) {
        PyErr_NoMemory();
        return false;
    }
    forbid_use(loop->read_buffer);
    return true;
}

void drop_read_buffer(LoopObject* loop) noexcept {
    PyMem_Free(take(loop));
}

} // namespace penstock::python
