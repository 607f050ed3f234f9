#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

#include <penstock/detail/moved_from.hpp>
#include <penstock/detail/task/frame_allocator.hpp>

namespace penstock {

/// A sequence that a coroutine computes step by step, without waiting. An input range:
///
///     Generator<int> countdown(int from) {
///         for (int i = from; i > 0; --i) {
///             co_yield i;
///         }
///     }
///     for (int i : countdown(3)) { ... }
///
/// The body runs while the range is iterated. Destroying the generator destroys the body, even at a
/// `co_yield`. Items are references into the coroutine, valid until the next step. For a body that
/// has to wait, use `AsyncGenerator`.
///
/// An exception of the body is rethrown from `begin` or `++`. The range has then ended.
///
/// Thread safety: none.
///
/// This is `std::generator` of C++23, which the standard libraries of clang 19 and GCC 13 lack.
/// `co_yield std::ranges::elements_of` is not supported.
template <typename T> class [[nodiscard]] Generator : public std::ranges::view_base {
    using Item = std::conditional_t<std::is_reference_v<T>, T, T&&>;

public:
    class promise_type {
    public:
        static void* operator new(std::size_t size) { return detail::allocate_frame(size); }
        static void operator delete(void* memory, std::size_t size) noexcept {
            detail::free_frame(memory, size);
        }

        [[nodiscard]] Generator get_return_object() noexcept {
            return Generator(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
        [[nodiscard]] std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() noexcept { exception_ = std::current_exception(); }

        /// The temporary in `co_yield expression` lives until the next step.
        [[nodiscard]] std::suspend_always yield_value(std::remove_reference_t<T>&& item) noexcept {
            item_ = std::addressof(item);
            return {};
        }
        [[nodiscard]] std::suspend_always yield_value(std::remove_reference_t<T>& item) noexcept
            requires(std::is_lvalue_reference_v<T>)
        {
            item_ = std::addressof(item);
            return {};
        }

        /// A copy of an lvalue, so that the consumer may move from it.
        [[nodiscard]] auto yield_value(const std::remove_reference_t<T>& item)
            requires(!std::is_reference_v<T>)
        {
            struct Copy : std::suspend_always {
                Copy(promise_type& promise, const T& source) : item(source) {
                    promise.item_ = std::addressof(item);
                }
                Copy(const Copy&) = delete;
                Copy& operator=(const Copy&) = delete;

                T item;
            };
            return Copy(*this, item);
        }

        /// A generator does not wait.
        void await_transform() = delete;

    private:
        friend Generator;

        std::remove_reference_t<T>* item_ = nullptr;
        std::exception_ptr exception_;
    };

    class Iterator {
    public:
        using value_type = std::remove_cvref_t<T>;
        using difference_type = std::ptrdiff_t;

        [[nodiscard]] Item operator*() const noexcept {
            return static_cast<Item>(*coroutine_.promise().item_);
        }
        Iterator& operator++() {
            step(coroutine_);
            return *this;
        }
        void operator++(int) { ++*this; }
        [[nodiscard]] bool operator==(std::default_sentinel_t /*end*/) const noexcept {
            return coroutine_.done();
        }

    private:
        friend Generator;
        explicit Iterator(std::coroutine_handle<promise_type> coroutine) noexcept
            : coroutine_(coroutine) {}

        std::coroutine_handle<promise_type> coroutine_;
    };

    Generator(Generator&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    Generator& operator=(Generator&& other) noexcept {
        Generator taken(std::move(other));
        std::swap(coroutine_, taken.coroutine_);
        return *this;
    }
    Generator(const Generator&) = delete;
    Generator& operator=(const Generator&) = delete;
    ~Generator() {
        if (coroutine_) {
            coroutine_.destroy();
        }
    }

    /// Runs the body to its first item. Call it once. On a generator that was moved from or has
    /// ended, this terminates the program with a message.
    [[nodiscard]] Iterator begin() {
        if (!coroutine_ || coroutine_.done()) [[unlikely]] {
            detail::report_moved_from("a Generator (or one that has ended)");
        }
        step(coroutine_);
        return Iterator(coroutine_);
    }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

private:
    explicit Generator(std::coroutine_handle<promise_type> coroutine) noexcept
        : coroutine_(coroutine) {}

    static void step(std::coroutine_handle<promise_type> coroutine) {
        coroutine.resume();
        if (coroutine.promise().exception_) {
            std::rethrow_exception(std::exchange(coroutine.promise().exception_, nullptr));
        }
    }

    std::coroutine_handle<promise_type> coroutine_;
};

} // namespace penstock
