#pragma once

#include "awaitable/native_awaitable.hpp"
#include "core/loop.hpp"

namespace penstock::python {

struct FdCallbacks;
enum class Direction : unsigned char;

/// The future that a task blocks on until a descriptor is ready.
///
/// Not an asyncio.Future, whose callback runs an iteration after its result was set. The dispatcher
/// calls this future's callback directly, and the task retries its system call at once. So no data
/// is ever read for a task that was cancelled in between.
///
/// Its result is always None. Readiness or cancel() ends the wait.
struct DescriptorWaiterObject : NativeAwaitable<DescriptorWaiterObject> {
    static constexpr PyObject* ModuleState::* spare = &ModuleState::spare_descriptor_waiter;

    PyObject ob_base;
    LoopObject* loop;             ///< owned
    FdCallbacks* place;           ///< the registration in whose queue it is, or null
    Direction direction;          ///< of that place
    DescriptorWaiterObject* next; ///< in that queue, which owns a reference
    WaitingTask task;
    bool ready; ///< the descriptor was ready, or is being closed

    [[nodiscard]] ModuleState* state() const noexcept { return loop->state; }
    [[nodiscard]] PyObject* owner() const noexcept { return as_object(loop); }
    [[nodiscard]] Ref owning_loop() const noexcept { return Ref::borrow(as_object(loop)); }
    [[nodiscard]] bool is_done() const noexcept { return ready || task.cancelled; }
    bool wake_soon() noexcept;
    [[nodiscard]] bool check_result() const noexcept;
    void release() noexcept { python::release(task); }
    int visit(visitproc visit, void* arg) const noexcept { return visit_task(task, visit, arg); }

    static PyObject* tp_repr(PyObject* self) noexcept;
    static std::array<PyType_Slot, 1> own_slots() noexcept;
};

/// A new waiter in no queue; null with an exception set.
DescriptorWaiterObject* make_descriptor_waiter(LoopObject* loop) noexcept;

/// The descriptor is ready: steps the waiting task. The waiter must be out of its queue.
void wake(DescriptorWaiterObject* waiter) noexcept;

/// The descriptor is ready, or being closed while another task may be running: steps the waiting
/// task in the next iteration. The waiter must be out of its queue.
void wake_later(DescriptorWaiterObject* waiter) noexcept;

/// Its task will not resume: removes it from its queue, and drops its references.
void abandon(DescriptorWaiterObject* waiter) noexcept;

} // namespace penstock::python
