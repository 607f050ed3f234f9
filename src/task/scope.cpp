#include <penstock/task/scope.hpp>

#include <utility>

#include <penstock/detail/task/frame_allocator.hpp>
#include <penstock/task/timeout.hpp>

namespace penstock {

namespace detail {

/// Waits until a scope has no spawned tasks.
class [[nodiscard]] DrainOperation final : public OperationBase {
public:
    explicit DrainOperation(ScopeJoin& join) noexcept : OperationBase(&cancel), join_(join) {}

    [[nodiscard]] bool await_ready() noexcept {
        if (context().cancelled()) {
            error_ = std::make_error_code(std::errc::operation_canceled);
        } else if (join_.draining_ != nullptr) {
            error_ = std::make_error_code(std::errc::device_or_resource_busy);
        }
        return (error_ || join_.scope_.size() == 0) && context().loop().consume_budget();
    }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) noexcept {
        suspend(task);
        if (error_ || join_.scope_.size() == 0) { // other tasks must run first
            resume_soon();
            return;
        }
        join_.draining_ = this;
    }

    [[nodiscard]] Result<> await_resume() const noexcept {
        if (error_) {
            return failure(error_);
        }
        return {};
    }

    void complete() noexcept {
        join_.draining_ = nullptr;
        resume_soon();
    }

private:
    static void cancel(OperationBase& base) noexcept {
        auto& self = static_cast<DrainOperation&>(base);
        self.error_ = std::make_error_code(std::errc::operation_canceled);
        self.complete();
    }

    ScopeJoin& join_;
    std::error_code error_;
};

/// A spawned task. It frees itself when it has ended.
template <typename T>
class ScopeJoin::Spawned final : public Child<T>, public io::Work, public FrameAllocated {
public:
    Spawned(ScopeJoin& join, Task<T>&& task) noexcept
        : Child<T>(join, std::move(task)), Work(&run_start), join_(join) {
        this->complete = &free_ended;
    }

private:
    static std::coroutine_handle<> free_ended(Completion& completion) noexcept {
        auto& self = static_cast<Spawned&>(completion);
        const std::coroutine_handle<> next = Child<T>::task_ended(self);
        self.join_.remove_spawned(); // now, because the task's parameters may have spawned another
        delete &self;
        return next;
    }

    static void run_start(io::Work& work) {
        auto& self = static_cast<Spawned&>(work);
        self.start(self.join_.context());
    }

    ScopeJoin& join_;
};

template <typename T> void ScopeJoin::spawn(Task<T>&& task) {
    auto* spawned = new Spawned<T>(*this, std::move(task));
    adopt(*spawned);
    context().loop().schedule(*spawned);
}

void ScopeJoin::adopt(ChildBase& spawned) noexcept {
    add_child(spawned);
    ++scope_.size_;
    if (cancelling_) {
        spawned.cancel();
    }
}

void ScopeJoin::remove_spawned() noexcept {
    if (--scope_.size_ == 0 && draining_ != nullptr) {
        draining_->complete();
    }
}

void ScopeJoin::on_child_end(JoinBase& join, ChildBase& child) noexcept {
    static_cast<ScopeJoin&>(join).record_failure(child);
}

void ScopeJoin::fail_with(std::exception_ptr exception) noexcept {
    if (!error_ && !exception_) {
        exception_ = std::move(exception);
        cancel();
    }
}

void ScopeJoin::record_failure(const ChildBase& child) noexcept {
    if (child.exception() && handler_ != nullptr && &child != body_child_) {
        handler_->handle(child.exception());
        return;
    }
    if (!child.failed() || error_ || exception_) {
        return;
    }
    if (child.cancelled() && child.error() != nullptr &&
        *child.error() == std::errc::operation_canceled) {
        cut_short_ = cut_short_ || (&child != body_child_ && context().cancelled());
        return;
    }
    if (child.error() != nullptr) {
        error_ = *child.error();
    }
    exception_ = child.exception();
    cancel();
}

} // namespace detail

void Scope::spawn(Task<void> task) {
    join_.spawn(std::move(task));
}

void Scope::spawn(Task<Result<>> task) {
    join_.spawn(std::move(task));
}

Task<Result<>> Scope::drain_until(io::MonotonicTime deadline) {
    const auto drained = [](detail::ScopeJoin& join) -> Task<Result<>> {
        co_return co_await detail::DrainOperation(join);
    };
    Result<> result = co_await detail::run_until_deadline(deadline, drained(join_));
    if (!result && result.error() == std::errc::timed_out) {
        join_.cancel_spawned();
    }
    co_return result;
}

void Scope::isolate(detail::ExceptionHandler& handler) noexcept {
    join_.set_exception_handler(handler);
}

void Scope::cancel() noexcept {
    cancelled_ = true;
    join_.cancel();
}

} // namespace penstock
