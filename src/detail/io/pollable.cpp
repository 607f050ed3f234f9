#include <penstock/detail/io/pollable.hpp>

#include <new>

#include <unistd.h>

namespace penstock::detail {

std::unique_ptr<Pollable> Pollable::adopt(int fd) {
    try {
        return std::make_unique<Pollable>(fd);
    } catch (...) {
        ::close(fd);
        throw;
    }
}

Pollable::~Pollable() {
    const int descriptor = release();
    if (descriptor >= 0) {
        ::close(descriptor);
    }
}

int Pollable::release() noexcept {
    cancel_waiting();
    if (loop_ != nullptr) {
        leave_loop();
    }
    return std::exchange(descriptor_, -1);
}

void Pollable::on_loop_end(LoopMember& member) noexcept {
    static_cast<Pollable&>(member).leave_loop();
}

void Pollable::leave_loop() noexcept {
    if (write_watch_ != nullptr) {
        write_watch_->stop(*loop_);
    }
    loop_->poller().remove(*this);
    loop_->remove(*this);
    loop_ = nullptr;
}

void Pollable::cancel_waiting() noexcept {
    for (ReadinessOperation*& waiting : waiting_) {
        if (ReadinessOperation* operation = std::exchange(waiting, nullptr)) {
            operation->error_ = failure(std::errc::operation_canceled).error();
            operation->resume_soon();
        }
    }
}

LazyErrorCode Pollable::register_with(EventLoop& loop, std::uint32_t event) {
    if (loop_ != nullptr && loop_ != &loop) {
        return std::make_error_code(std::errc::operation_not_supported);
    }
    const std::error_code error = loop_ == nullptr ? loop.poller().add(*this, descriptor_, event)
                                                   : loop.poller().update(*this, interest | event);
    if (error) {
        return error;
    }
    if (loop_ == nullptr) {
        loop_ = &loop;
        loop.add(*this);
    }
    return {};
}

void Pollable::watch_hang_up(HangUpHook& hook, EventLoop& loop) noexcept {
    hang_up_hook_ = &hook;
    if (loop_ != &loop || (interest & io::peer_ended) == 0) {
        (void)register_with(loop, io::peer_ended);
    }
}

LazyErrorCode Pollable::watch_input(InputHook& hook, EventLoop& loop) {
    if (loop_ != &loop || (interest & io::readable) == 0) {
        if (const LazyErrorCode error = register_with(loop, io::readable)) {
            return error;
        }
    }
    input_hook_ = &hook;
    return {};
}

void Pollable::limit_writes(const net::WriteLimit& limit) noexcept {
    write_limit_ = limit;
    if (write_watch_ != nullptr) {
        write_watch_->set(limit);
    }
}

LazyErrorCode Pollable::begin_limited_wait() noexcept {
    try {
        if (write_watch_ == nullptr) {
            write_watch_ = std::make_unique<WriteWatch>(*this, write_limit_);
        }
        write_watch_->begin();
        return {};
    } catch (const std::bad_alloc&) {
        return std::make_error_code(std::errc::not_enough_memory);
    }
}

bool Pollable::retry_write() {
    set_may_be_ready(Direction::writing, true);
    ReadinessOperation* const writer = attempt_waiting(Direction::writing);
    if (writer == nullptr) {
        return false;
    }
    writer->resume();
    return true;
}

void Pollable::interrupt_write() noexcept {
    (void)waiting_[static_cast<std::size_t>(Direction::writing)]->interrupt();
}

void Pollable::remove_waiter(ReadinessOperation& operation) noexcept {
    if (operation.direction_ == Direction::writing && write_watch_ != nullptr) {
        write_watch_->end();
    }
    waiting_[static_cast<std::size_t>(operation.direction_)] = nullptr;
}

void Pollable::on_ready(io::Watch& watch, std::uint32_t events) {
    static_cast<Pollable&>(watch).dispatch(events);
}

ReadinessOperation* Pollable::attempt_waiting(Direction direction) noexcept {
    ReadinessOperation*& waiting = waiting_[static_cast<std::size_t>(direction)];
    return waiting->attempt_(*waiting) ? std::exchange(waiting, nullptr) : nullptr;
}

// Interest is dropped lazily, after a spurious wake-up: most operations re-arm soon and then need
// no system call.
void Pollable::dispatch(std::uint32_t events) {
    constexpr std::uint32_t closing = io::hung_up | io::failed;
    ReadinessOperation* reader = nullptr;
    ReadinessOperation* writer = nullptr;
    InputHook* hook = nullptr;
    std::uint32_t unwanted = 0;
    if ((events & (io::peer_ended | closing)) != 0 && (interest & io::peer_ended) != 0) {
        unwanted |= io::peer_ended; // it would be reported again and again
        // First: what it cancels must still wait, and not be about to resume.
        if (hang_up_hook_ != nullptr && !is_awaited(Direction::reading)) {
            HangUpHook* const hook = std::exchange(hang_up_hook_, nullptr);
            hook->on_hang_up(*hook, (events & closing) != 0);
        }
    }
    if ((events & (io::readable | closing)) != 0) {
        set_may_be_ready(Direction::reading, true);
        if (waiting_[0] != nullptr) {
            reader = attempt_waiting(Direction::reading);
        } else if (input_hook_ != nullptr) {
            hook = std::exchange(input_hook_, nullptr);
        } else {
            unwanted |= io::readable;
        }
    }
    if ((events & (io::writable | closing)) != 0) {
        set_may_be_ready(Direction::writing, true);
        if (waiting_[1] != nullptr) {
            if (write_watch_ != nullptr) {
                write_watch_->on_room();
            }
            writer = attempt_waiting(Direction::writing);
            if (writer == nullptr && write_watch_ != nullptr) {
                write_watch_->on_attempt();
            }
        } else {
            unwanted |= io::writable;
        }
    }
    if ((interest & unwanted) != 0) {
        (void)loop_->poller().update(*this, interest & ~unwanted);
    }
    // The first task that runs, and the hook, may close the descriptor and free this object.
    if ((reader != nullptr || hook != nullptr) && writer != nullptr) {
        writer->resume_soon();
        writer = nullptr;
    }
    if (reader != nullptr) {
        reader->resume();
    } else if (writer != nullptr) {
        writer->resume();
    } else if (hook != nullptr) {
        hook->on_input(*hook);
    }
}

void ReadinessOperation::cancel(OperationBase& base) noexcept {
    auto& operation = static_cast<ReadinessOperation&>(base);
    operation.pollable_->remove_waiter(operation);
    operation.error_ = failure(std::errc::operation_canceled).error();
    operation.resume_soon();
}

bool ReadinessOperation::interrupt() noexcept {
    if (!is_waiting()) {
        return false;
    }
    pollable_->remove_waiter(*this);
    error_ = failure(std::errc::timed_out).error();
    resume_soon();
    return true;
}

bool ReadinessOperation::wait_refused(LazyErrorCode error) {
    if (error.code() == std::errc::operation_not_permitted) { // a regular file is always ready
        while (!attempt_(*this)) {
        }
        resume_soon(); // the budget is used up, or `await_ready` would have completed it
        return true;
    }
    unsuspend();
    error_ = error;
    return false;
}

} // namespace penstock::detail
