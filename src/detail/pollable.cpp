#include <penstock/detail/pollable.hpp>

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
    abandon();
    if (loop_ != nullptr) {
        leave_loop();
    }
    return std::exchange(descriptor_, -1);
}

void Pollable::leave_loop() noexcept {
    loop_->poller().remove(*this);
    loop_->pollables_.remove(*this);
    loop_ = nullptr;
}

void Pollable::abandon() noexcept {
    for (ReadinessOperation*& waiting : waiting_) {
        if (ReadinessOperation* operation = std::exchange(waiting, nullptr)) {
            operation->error_ = failure(std::errc::operation_canceled).error();
            operation->resume_soon();
        }
    }
}

LateError Pollable::join(EventLoop& loop, std::uint32_t event) {
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
        loop.pollables_.push_back(*this);
    }
    return {};
}

void Pollable::forget(ReadinessOperation& operation) noexcept {
    waiting_[static_cast<std::size_t>(operation.direction_)] = nullptr;
}

void Pollable::on_ready(io::Watch& watch, std::uint32_t events) {
    static_cast<Pollable&>(watch).serve(events);
}

ReadinessOperation* Pollable::finished(Direction direction) noexcept {
    ReadinessOperation*& waiting = waiting_[static_cast<std::size_t>(direction)];
    return waiting->attempt_(*waiting) ? std::exchange(waiting, nullptr) : nullptr;
}

// Interest that nobody has any more is dropped only here, when it has woken the loop for nothing: who
// waits again soon, as most do, needs no system call for it.
void Pollable::serve(std::uint32_t events) {
    constexpr std::uint32_t closing = io::hung_up | io::failed;
    ReadinessOperation* reader = nullptr;
    ReadinessOperation* writer = nullptr;
    std::uint32_t unwanted = 0;
    if ((events & (io::readable | closing)) != 0) {
        set_worth_trying(Direction::reading, true);
        if (waiting_[0] != nullptr) {
            reader = finished(Direction::reading);
        } else {
            unwanted |= io::readable;
        }
    }
    if ((events & (io::writable | closing)) != 0) {
        set_worth_trying(Direction::writing, true);
        if (waiting_[1] != nullptr) {
            writer = finished(Direction::writing);
        } else {
            unwanted |= io::writable;
        }
    }
    if ((interest & unwanted) != 0) {
        (void)loop_->poller().update(*this, interest & ~unwanted);
    }
    // The first task to go on may close the descriptor and free this object.
    if (reader != nullptr && writer != nullptr) {
        writer->resume_soon();
        writer = nullptr;
    }
    if (reader != nullptr) {
        reader->resume();
    } else if (writer != nullptr) {
        writer->resume();
    }
}

void ReadinessOperation::cancel(Suspension& suspension) noexcept {
    auto& operation = static_cast<ReadinessOperation&>(suspension);
    operation.pollable_->forget(operation);
    operation.error_ = failure(std::errc::operation_canceled).error();
    operation.resume_soon();
}

bool ReadinessOperation::not_waiting(LateError error) {
    if (error.code() == std::errc::operation_not_permitted) { // a regular file, always ready
        while (!attempt_(*this)) {
        }
        resume_soon(); // the task has had its share, or it would not be here
        return true;
    }
    unsuspend();
    error_ = error;
    return false;
}

} // namespace penstock::detail
