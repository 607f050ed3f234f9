#include "core/memory_reserve.hpp"

#include <utility>

#include <sys/mman.h>

namespace penstock::python {

namespace {

/// Enough for an arena of the interpreter's allocator (1 MiB) and the same again for tracebacks and
/// their source lines. A mapping and not a heap block: callers of mmap(2) cannot use memory that
/// was freed to the heap. Never written to, so it takes addresses and no memory.
constexpr std::size_t reserve_size = std::size_t{2} * 1024 * 1024;

} // namespace

ReleasedReserve::ReleasedReserve(LoopObject* loop, PyObject* exception) noexcept : loop_(nullptr) {
    if (loop->reserve == nullptr ||
        PyErr_GivenExceptionMatches(exception, PyExc_MemoryError) == 0) {
        return;
    }
    loop_ = reinterpret_cast<LoopObject*>(Py_NewRef(as_object(loop)));
    drop_reserve(loop);
}

ReleasedReserve::~ReleasedReserve() {
    if (loop_ == nullptr) {
        return;
    }
    if (!loop_->closed) {
        refill_reserve(loop_);
    }
    Py_DECREF(loop_);
}

void refill_reserve(LoopObject* loop) noexcept {
    if (loop->reserve == nullptr) {
        void* mapping = ::mmap(nullptr, reserve_size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        loop->reserve = mapping != MAP_FAILED ? mapping : nullptr;
    }
}

void drop_reserve(LoopObject* loop) noexcept {
    if (loop->reserve != nullptr) {
        ::munmap(std::exchange(loop->reserve, nullptr), reserve_size);
    }
}

} // namespace penstock::python
