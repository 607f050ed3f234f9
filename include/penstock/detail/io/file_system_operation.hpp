#pragma once

#include <coroutine>
#include <cstdint>
#include <system_error>
#include <type_traits>

#include <penstock/event_loop.hpp>
#include <penstock/io/files/file_engine.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock::detail {

/// An operation of the loop's file engine. `Derived` has
///
///     void describe(io::FileOperation& request);   // fills in the request
///     T result(std::int64_t answer);               // after success; not for void
///     bool try_now() noexcept;                     // optional: tries without the engine
///
/// Cancellation: the operation completes when the engine says so, because the kernel uses its
/// buffers until then. A queued request completes soon. A running one completes with its own
/// result.
template <typename Derived, typename T>
class [[nodiscard]] FileSystemOperation : public OperationBase, private io::FileOperation {
public:
    [[nodiscard]] bool await_ready() noexcept {
        if (!error_ && !ignores_cancellation_ && context().cancelled()) {
            error_ = std::make_error_code(std::errc::operation_canceled);
        }
        return context().loop().consume_budget() && (error_ || derived().try_now());
    }

    /// Throws what `EventLoop::files` throws, except that a lack of descriptors becomes the result.
    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        if (error_) { // already known, but other tasks must run first
            suspend(task);
            resume_soon();
            return true;
        }
        io::FileEngine* const engine = find_engine();
        if (engine == nullptr) {
            return false;
        }
        derived().describe(*this);
        suspend(task);
        try {
            error_ = engine->start(*this);
        } catch (...) {
            unsuspend();
            throw;
        }
        if (error_) {
            unsuspend();
        }
        return !error_;
    }

    [[nodiscard]] Result<T> await_resume() {
        if (error_) {
            return failure(error_);
        }
        if constexpr (std::is_void_v<T>) {
            return {};
        } else {
            return derived().result(answer_);
        }
    }

protected:
    // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): a derived class's own are public
    FileSystemOperation() noexcept : OperationBase(&cancel), FileOperation(&complete) {}

    /// An operation that has already failed, if `error` is set.
    // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
    explicit FileSystemOperation(std::error_code error) noexcept : FileSystemOperation() {
        error_ = error;
    }

    /// For operations that must run in a cancelled task, such as `close`.
    void ignore_cancellation() noexcept { ignores_cancellation_ = true; }

    [[nodiscard]] bool try_now() noexcept { return false; }

    /// For a function passed to `FileOperation::to_call`: the operation of a request.
    [[nodiscard]] static Derived& derived_of(io::FileOperation& request) noexcept {
        return of(request).derived();
    }

    /// For `try_now`.
    bool succeed(std::int64_t answer) noexcept {
        answer_ = answer;
        return true;
    }

private:
    /// Null and `error_` if there are no descriptors left for the loop's first file operation. A
    /// later operation tries again.
    [[nodiscard]] io::FileEngine* find_engine() {
        try {
            return &context().loop().files();
        } catch (const std::system_error& error) {
            if (error.code() != std::errc::too_many_files_open &&
                error.code() != std::errc::too_many_files_open_in_system) {
                throw;
            }
            error_ = error.code();
            return nullptr;
        }
    }

    [[nodiscard]] Derived& derived() noexcept { return static_cast<Derived&>(*this); }

    static FileSystemOperation& of(io::FileOperation& request) noexcept {
        return static_cast<FileSystemOperation&>(request);
    }

    static void complete(io::FileOperation& request, std::int64_t answer) {
        FileSystemOperation& self = of(request);
        self.answer_ = answer;
        if (answer < 0) {
            self.error_.assign(static_cast<int>(-answer), std::system_category());
        }
        self.resume();
    }

    static void cancel(OperationBase& base) noexcept {
        auto& self = static_cast<FileSystemOperation&>(base);
        self.context().loop().files().cancel(self);
    }

    std::error_code error_;
    std::int64_t answer_ = 0;
    bool ignores_cancellation_ = false;
};

} // namespace penstock::detail
