#include <penstock/stream/memory_stream.hpp>

#include <cstring>
#include <stdexcept>

#include <penstock/io/never_destroyed.hpp>

namespace penstock {

namespace detail {

MemoryPipe::MemoryPipe(std::size_t capacity)
    : buffer_(capacity != 0
                  ? capacity
                  : throw std::invalid_argument("a memory stream's capacity is at least 1")) {}

MemoryPipe& MemoryPipe::closed() noexcept {
    static io::NeverDestroyed<MemoryPipe> pipe(std::size_t{1});
    (*pipe).close_write();
    (*pipe).close_read();
    return *pipe;
}

std::size_t MemoryPipe::pop(MutableBytes into) noexcept {
    std::size_t count = 0;
    while (count < into.size() && size_ > 0) {
        const std::size_t part = std::min({into.size() - count, size_, buffer_.size() - first_});
        std::memcpy(into.data() + count, buffer_.data() + first_, part);
        first_ = (first_ + part) % buffer_.size();
        size_ -= part;
        count += part;
    }
    return count;
}

void MemoryPipe::push(Bytes& from) noexcept {
    while (!from.empty() && size_ < buffer_.size()) {
        const std::size_t end = (first_ + size_) % buffer_.size();
        const std::size_t free = buffer_.size() - size_;
        const std::size_t part = std::min({from.size(), free, buffer_.size() - end});
        std::memcpy(buffer_.data() + end, from.data(), part);
        size_ += part;
        from = Bytes(from.data() + part, from.size() - part);
    }
}

bool MemoryPipe::Read::try_now(WakeList& wake_list) noexcept {
    MemoryPipe& pipe = *pipe_;
    count_ = pipe.pop(into_);
    // The space goes to the waiting writers, in their order.
    while (Waiter* waiting = pipe.writers_.front()) {
        auto& writer = static_cast<Write&>(*waiting);
        pipe.push(writer.from_);
        if (!writer.from_.empty()) {
            break;
        }
        wake_list.add(*take_first(pipe.writers_));
    }
    return count_ > 0 || into_.empty() || pipe.write_closed_ || pipe.read_closed_;
}

bool MemoryPipe::Write::try_now(WakeList& wake_list) noexcept {
    MemoryPipe& pipe = *pipe_;
    broken_ = pipe.write_closed_ || pipe.read_closed_;
    if (broken_) {
        return true;
    }
    if (pipe.writers_.empty()) { // behind other writers it waits for its turn
        pipe.push(from_);
    }
    while (pipe.size_ > 0) {
        Waiter* waiting = take_first(pipe.readers_);
        if (waiting == nullptr) {
            break;
        }
        auto& reader = static_cast<Read&>(*waiting);
        reader.count_ = pipe.pop(reader.into_);
        wake_list.add(reader);
        pipe.push(from_);
    }
    return from_.empty();
}

Result<> MemoryPipe::Write::result() const noexcept {
    // A writer that was woken by a closing has bytes left.
    if (broken_ || !from_.empty()) {
        return failure(std::errc::broken_pipe);
    }
    return {};
}

void MemoryPipe::close_write() noexcept {
    Waiter::WakeList wake_list;
    const std::lock_guard guard(lock_);
    write_closed_ = true;
    wake_list.add_all(readers_);
    wake_list.add_all(writers_);
}

void MemoryPipe::close_read() noexcept {
    Waiter::WakeList wake_list;
    const std::lock_guard guard(lock_);
    read_closed_ = true;
    size_ = 0;
    wake_list.add_all(readers_);
    wake_list.add_all(writers_);
}

} // namespace detail

std::pair<MemoryStream, MemoryStream> MemoryStream::pair(std::size_t capacity) {
    auto there = std::make_shared<detail::MemoryPipe>(capacity);
    auto back = std::make_shared<detail::MemoryPipe>(capacity);
    return {MemoryStream(back, there), MemoryStream(there, back)};
}

void MemoryStream::close() noexcept {
    if (out_) { // not moved from
        out_->close_write();
        in_->close_read();
    }
}

} // namespace penstock
