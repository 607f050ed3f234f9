#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <penstock/detail/children.hpp>
#include <penstock/detail/serial_line.hpp>
#include <penstock/result.hpp>
#include <penstock/task.hpp>

namespace penstock::serial::detail {

template <typename Write>
Task<Awaited<Write>> write_in_turn(std::shared_ptr<Line> line, std::size_t size, Write& write) {
    Turn turn(std::move(line));
    if (const Result<> begun = co_await turn.begin(); !begun) {
        co_return failure(begun.error());
    }
    Awaited<Write> written = co_await write;
    if (!written) {
        co_return written;
    }
    if constexpr (!std::same_as<Awaited<Write>, Result<>>) {
        size = *written;
    }
    if (const Result<> ended = co_await turn.end(size); !ended) {
        co_return failure(ended.error());
    }
    co_return written;
}

/// A port's write: the plain operation, or, on a bus that the port switches in software, a task around it.
template <typename Write> class [[nodiscard]] PortWrite final : public Write {
public:
    /// `line` is null where nothing is switched; `size` is how many bytes there are, where it is not.
    PortWrite(Write write, std::shared_ptr<Line> line, std::size_t size) noexcept
        : Write(std::move(write)), line_(std::move(line)), size_(size) {}

    [[nodiscard]] bool await_ready() noexcept {
        // Nothing to write, or cancelled before it began: the bus is left alone.
        if (line_ != nullptr && (size_ == 0 || this->context().cancelled())) {
            line_.reset();
        }
        return line_ == nullptr && Write::await_ready();
    }

    /// Throws `std::bad_alloc`.
    template <std::derived_from<penstock::detail::PromiseBase> Promise>
    [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) {
        if (line_ != nullptr) {
            // The base stays where it is, for an operation that is awaited may not be moved: the task awaits
            // it there.
            task_.emplace(
                write_in_turn<Write>(std::move(line_), size_, static_cast<Write&>(*this)));
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
