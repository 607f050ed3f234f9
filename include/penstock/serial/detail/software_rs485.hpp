#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/result.hpp>
#include <penstock/serial/detail/line.hpp>
#include <penstock/serial/options.hpp>
#include <penstock/task/task.hpp>

namespace penstock::serial::detail {

/// One transmission on an RS-485 bus that the port switches in software: takes the bus, and
/// releases it after the last bit. A transmission that does not reach `finish` discards unsent
/// bytes, which would otherwise collide with other senders. Without RS-485 in software it does
/// nothing.
class Rs485Transmission {
public:
    explicit Rs485Transmission(std::shared_ptr<Line> line) noexcept
        : line_(std::move(line)), mode_(line_->mode_.value_or(Rs485())),
          active_(line_->has_software_rs485()) {}
    Rs485Transmission(const Rs485Transmission&) = delete;
    Rs485Transmission& operator=(const Rs485Transmission&) = delete;
    ~Rs485Transmission();

    /// Returns `device_or_resource_busy` while another task has the bus.
    [[nodiscard]] Task<Result<>> begin();

    /// Call it after `count` bytes were written.
    [[nodiscard]] Task<Result<>> finish(std::size_t count);

private:
    /// Uses the settings that are in force by then.
    Result<> release_bus() noexcept;

    std::shared_ptr<Line> line_;
    Rs485 mode_;
    bool active_;
    std::chrono::steady_clock::time_point begun_;
    bool has_bus_ = false;
};

template <typename Write>
Task<Awaited<Write>> write_rs485(std::shared_ptr<Line> line, std::size_t size, Write& write) {
    Rs485Transmission transmission(std::move(line));
    if (const Result<> begun = co_await transmission.begin(); !begun) {
        co_return failure(begun.error());
    }
    Awaited<Write> written = co_await write;
    if (!written) {
        co_return written;
    }
    if constexpr (!std::same_as<Awaited<Write>, Result<>>) {
        size = *written;
    }
    if (const Result<> ended = co_await transmission.finish(size); !ended) {
        co_return failure(ended.error());
    }
    co_return written;
}

/// A write of a port: the plain operation, or, with RS-485 in software, a task around it.
template <typename Write> class [[nodiscard]] PortWrite final : public Write {
public:
    /// `line` is null without RS-485 in software. Otherwise `size` is the number of bytes to write.
    PortWrite(Write write, std::shared_ptr<Line> line, std::size_t size) noexcept
        : Write(std::move(write)), line_(std::move(line)), size_(size) {}

    [[nodiscard]] bool await_ready() noexcept {
        // Without bytes, or cancelled before the start: does not take the bus.
        if (line_ != nullptr && (size_ == 0 || this->context().cancelled())) {
            line_.reset();
        }
        return line_ == nullptr && Write::await_ready();
    }

    /// Throws `std::bad_alloc`.
    template <std::derived_from<penstock::detail::PromiseBase> Promise>
    [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) {
        if (line_ != nullptr) {
            // An awaited operation must not be moved, so the task awaits the base where it is.
            task_.emplace(write_rs485<Write>(std::move(line_), size_, static_cast<Write&>(*this)));
            return task_->await_suspend(awaiting);
        }
        if (Write::await_suspend(awaiting)) {
            return std::noop_coroutine();
        }
        return penstock::detail::transfer(awaiting);
    }

    [[nodiscard]] Awaited<Write> await_resume() {
        return task_ ? task_->await_resume() : Write::await_resume();
    }

private:
    std::shared_ptr<Line> line_;
    std::size_t size_;
    std::optional<penstock::detail::TaskAwaiter<Awaited<Write>>> task_;
};

} // namespace penstock::serial::detail
