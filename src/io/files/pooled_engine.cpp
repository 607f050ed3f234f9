#include "io/files/pooled_engine.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "io/files/file_call.hpp"

namespace penstock::io {

namespace {

using Kind = FileOperation::Kind;

/// Requests a larger buffer from the owner of a `read_file`. False if the operation is complete.
bool provide_capacity(FileOperation& operation) {
    if (!operation.engine.needs_capacity) {
        return false;
    }
    operation.engine.needs_capacity = false;
    if (operation.engine.cancelled) {
        operation.engine.result = -ECANCELED;
        return false;
    }
    const auto capacity = static_cast<std::size_t>(operation.engine.result);
    void* buffer = operation.grow(operation, capacity);
    if (buffer == nullptr) {
        operation.engine.result = -ENOMEM;
        return false;
    }
    operation.buffer = buffer;
    operation.length = capacity;
    if (std::exchange(operation.engine.tail_read, false)) {
        static_cast<char*>(buffer)[operation.transferred++] = operation.engine.tail;
    }
    return true;
}

} // namespace

PooledEngine::PooledEngine(const FileEngineOptions& options)
    : workers_(std::make_unique<FileWorkers>(options, event_)) {}

std::error_code PooledEngine::start(FileOperation& operation) {
    if (closing_) {
        return std::make_error_code(std::errc::operation_canceled);
    }
    if (in_child()) {
        return std::make_error_code(std::errc::owner_dead);
    }
    if (operation.in_flight()) {
        return std::make_error_code(std::errc::device_or_resource_busy);
    }
    operation.engine = {};
    operation.transferred = 0;
    set_in_flight(operation, true);
    ++in_flight_;
    add(operation);
    return {};
}

void PooledEngine::cancel(FileOperation& operation) noexcept {
    if (usable() && operation.in_flight()) {
        request_cancel(operation);
    }
}

bool PooledEngine::withdraw(FileOperation& operation) noexcept {
    return usable() && operation.in_flight() && !operation.engine.cancelled &&
           request_withdrawal(operation);
}

void PooledEngine::add(FileOperation& operation) noexcept {
    if (is_stream_transfer(operation)) {
        workers_->add_transfer(operation);
    } else {
        workers_->add(operation);
    }
}

bool PooledEngine::flush() noexcept {
    if (!usable()) {
        return false;
    }
    submit();
    return has_completed();
}

std::size_t PooledEngine::deliver() {
    std::size_t delivered = 0;
    if (!usable()) {
        return delivered;
    }
    interrupted_ = false;
    while (!interrupted_) {
        FileOperation* operation = pop_completed();
        if (operation == nullptr) {
            break;
        }
        if (provide_capacity(*operation)) {
            resume(*operation);
            continue;
        }
        ++delivered;
        finish(*operation);
    }
    return delivered;
}

// Files that a finished or cancelled operation has opened are closed here, on the loop's thread:
// close(2) of a file just opened has no data to write back and does not wait.
void PooledEngine::finish(FileOperation& operation) {
    std::int64_t result = operation.engine.result;
    if (operation.kind == Kind::open && operation.engine.cancelled && result >= 0) {
        ::close(static_cast<int>(result));
        result = -ECANCELED;
    }
    close_opened_file(operation);
    if (result == -EINTR && operation.engine.cancelled) {
        result = -ECANCELED;
    }
    set_in_flight(operation, false);
    --in_flight_;
    operation.on_complete(operation, result);
}

std::size_t PooledEngine::process() {
    if (!usable()) {
        return 0;
    }
    event_.clear();
    const std::size_t delivered = deliver();
    if (flush()) {
        event_.signal();
    }
    return delivered;
}

void PooledEngine::cancel_all() noexcept {
    if (usable() && in_flight_ != 0) {
        request_cancel_all();
    }
}

void PooledEngine::wait() noexcept {
    if (!usable()) {
        return;
    }
    // Cleared before `flush` checks for completions: a later completion signals again.
    event_.clear();
    if (!flush() && in_flight_ != 0) {
        constexpr int interrupt_interval = 5; // milliseconds
        event_.wait(workers_->interrupts() ? interrupt_interval : -1);
    }
}

void PooledEngine::close() noexcept {
    if (closed_) {
        return;
    }
    if (in_child()) {
        closing_ = closed_ = true;
        abandon();
        return;
    }
    closing_ = true;
    cancel_all();
    while (in_flight_ != 0) {
        wait();
        deliver();
    }
    release();
    closed_ = true;
}

} // namespace penstock::io
