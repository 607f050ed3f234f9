#pragma once

#include <coroutine>
#include <cstdint>
#include <system_error>
#include <type_traits>

#include <penstock/event_loop.hpp>
#include <penstock/io/file_engine.hpp>
#include <penstock/result.hpp>
#include <penstock/suspension.hpp>

namespace penstock::detail {

/// An operation that the loop's file engine does. `Derived` has
///
///     void describe(io::FileOperation& request);   // says what is to be done
///     T result(std::int64_t answer);               // after success; not for void
///     bool try_now() noexcept;                     // optional: does it without the engine, if it can
///
/// When it is cancelled it ends when the engine says so, for until then the kernel has its buffers:
/// soon for what waits its turn, and with its own result for what has begun.
template <typename Derived, typename T>
class [[nodiscard]] FileSystemOperation : public Suspension, private io::FileOperation {
public:
    [[nodiscard]] bool await_ready() noexcept {
        if (!error_ && !runs_cancelled_ && context().cancelled()) {
            error_ = std::make_error_code(std::errc::operation_canceled);
        }
        return context().loop().spend() && (error_ || derived().try_now());
    }

    /// Throws what `EventLoop::files` does, but for a lack of descriptors, which is the result.
    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        if (error_) { // known at once, but others must run first
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
    FileSystemOperation() noexcept : Suspension(&cancel), FileOperation(&complete) {}

    /// Without `error`, it begins; with one, it has ended.
    // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
    explicit FileSystemOperation(std::error_code error) noexcept : FileSystemOperation() {
        error_ = error;
    }

    /// For what a cancelled task must still do: `close`.
    void run_cancelled() noexcept { runs_cancelled_ = true; }

    [[nodiscard]] bool try_now() noexcept { return false; }

    /// For a function given to `FileOperation::to_call`: whose request it is.
    [[nodiscard]] static Derived& derived_of(io::FileOperation& request) noexcept {
        return of(request).derived();
    }

    /// For `try_now`.
    bool succeed(std::int64_t answer) noexcept {
        answer_ = answer;
        return true;
    }

private:
    /// Null with `error_` when there are too few descriptors for the loop's first file operation; a later
    /// one tries again.
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

    static void cancel(Suspension& suspension) noexcept {
        auto& self = static_cast<FileSystemOperation&>(suspension);
        self.context().loop().files().cancel(self);
    }

    std::error_code error_;
    std::int64_t answer_ = 0;
    bool runs_cancelled_ = false;
};

} // namespace penstock::detail
