#include "net/write_queue.hpp"

namespace penstock::python {

void WriteQueue::append(PyObject* data, std::size_t offset) {
    chunks_.push_back(Chunk{.data = Ref::borrow(data), .offset = offset});
    size_ += chunks_.back().size();
}

int WriteQueue::fill(iovec* vector, int capacity) const noexcept {
    int count = 0;
    for (const Chunk& chunk : chunks_) {
        if (count == capacity) {
            break;
        }
        vector[count++] = {.iov_base = chunk.begin(), .iov_len = chunk.size()};
    }
    return count;
}

void WriteQueue::consume(std::size_t count) noexcept {
    size_ -= count;
    while (count > 0) {
        Chunk& first = chunks_.front();
        if (count < first.size()) {
            first.offset += count;
            return;
        }
        count -= first.size();
        chunks_.pop_front();
    }
}

void WriteQueue::clear() noexcept {
    // Moved out first: dropping an object may run code that calls this again.
    std::deque<Chunk> chunks;
    chunks.swap(chunks_);
    size_ = 0;
}

} // namespace penstock::python
