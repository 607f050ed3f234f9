#include <penstock/scope.hpp>

#include <utility>

#include <penstock/detail/frame_allocator.hpp>

namespace penstock {

namespace detail {

namespace {

/// The places of a scope's children tell which kind they are. The body's is 0.
constexpr std::size_t place_of_void = 1;
constexpr std::size_t place_of_result = 2;

} // namespace

/// A spawned task, which `note_end` frees.
template <typename T>
class ScopeGathering::Spawned final : public Child<T>, public io::Work, public FrameAllocated {
public:
    Spawned(ScopeGathering& gathering, Task<T>&& task, std::size_t place) noexcept
        : Child<T>(gathering, std::move(task), place), Work(&run_start), gathering_(gathering) {}

private:
    static void run_start(io::Work& work) {
        auto& self = static_cast<Spawned&>(work);
        self.start(self.gathering_.context());
    }

    ScopeGathering& gathering_;
};

template <typename T> void ScopeGathering::spawn(Task<T>&& task, std::size_t place) {
    auto* spawned = new Spawned<T>(*this, std::move(task), place);
    enlist(*spawned);
    ++scope_.size_;
    if (ending_) {
        spawned->cancel();
    }
    context().loop().schedule(*spawned);
}

// The end of a task's coroutine comes here: it is suspended for the last time, so it can be destroyed.
void ScopeGathering::note_end(Gathering& gathering, ChildBase& child) noexcept {
    auto& self = static_cast<ScopeGathering&>(gathering);
    self.note_failure(child);
    if (child.place() == place_of_void) {
        --self.scope_.size_;
        delete static_cast<Spawned<void>*>(&child);
    } else if (child.place() == place_of_result) {
        --self.scope_.size_;
        delete static_cast<Spawned<Result<>>*>(&child);
    }
}

void ScopeGathering::fail_with(std::exception_ptr exception) noexcept {
    if (!error_ && !exception_) {
        exception_ = std::move(exception);
        end_early();
    }
}

void ScopeGathering::note_failure(const ChildBase& child) noexcept {
    const std::optional<Failure> failure = child.failure();
    if (!failure || error_ || exception_) {
        return;
    }
    if (child.cancelled() && failure->error == std::errc::operation_canceled) {
        return;
    }
    error_ = failure->error;
    exception_ = failure->exception;
    end_early();
}

} // namespace detail

void Scope::spawn(Task<void> task) {
    gathering_.spawn(std::move(task), detail::place_of_void);
}

void Scope::spawn(Task<Result<>> task) {
    gathering_.spawn(std::move(task), detail::place_of_result);
}

void Scope::cancel() noexcept {
    cancelled_ = true;
    gathering_.end_early();
}

} // namespace penstock
