#include "awaitable/descriptor_waiter.hpp"

#include "core/fd_callbacks.hpp"

namespace penstock::python {

bool DescriptorWaiterObject::wake_soon() noexcept {
    if (!check_open(loop)) {
        return false;
    }
    if (!schedule_step(loop, task, as_object(this))) {
        return false;
    }
    end_wait(this);
    return true;
}

bool DescriptorWaiterObject::check_result() const noexcept {
    if (!ready) {
        PyErr_SetString(loop->state->invalid_state_error_type, "Result is not set.");
    }
    return ready;
}

PyObject* DescriptorWaiterObject::tp_repr(PyObject* self) noexcept {
    const DescriptorWaiterObject* waiter = of(self);
    if (waiter->place == nullptr) {
        return PyUnicode_FromFormat("<DescriptorWaiter %s>",
                                    waiter->task.cancelled ? "cancelled" : "done");
    }
    return PyUnicode_FromFormat("<DescriptorWaiter fd=%d waits to %s>", waiter->place->fd,
                                waiter->direction == Direction::read ? "read" : "write");
}

std::array<PyType_Slot, 1> DescriptorWaiterObject::own_slots() noexcept {
    return {PyType_Slot{Py_tp_repr, reinterpret_cast<void*>(&tp_repr)}};
}

DescriptorWaiterObject* make_descriptor_waiter(LoopObject* loop) noexcept {
    auto* waiter =
        DescriptorWaiterObject::allocate(loop->state, loop->state->descriptor_waiter_type);
    if (waiter == nullptr) {
        return nullptr;
    }
    waiter->loop = loop;
    Py_INCREF(loop);
    waiter->place = nullptr;
    waiter->next = nullptr;
    waiter->task = {};
    waiter->task.blocking = true;
    waiter->ready = false;
    PyObject_GC_Track(as_object(waiter));
    return waiter;
}

void wake(DescriptorWaiterObject* waiter) noexcept {
    waiter->ready = true;
    step_as_callback(waiter->loop, waiter->task, as_object(waiter));
}

void wake_later(DescriptorWaiterObject* waiter) noexcept {
    waiter->ready = true;
    if (!schedule_step(waiter->loop, waiter->task, as_object(waiter))) {
        PyErr_WriteUnraisable(as_object(waiter));
    }
}

void abandon(DescriptorWaiterObject* waiter) noexcept {
    const Ref alive = Ref::borrow(as_object(waiter));
    end_wait(waiter);
    waiter->release();
}

bool add_descriptor_waiter_type(PyObject* module, ModuleState* state) {
    state->descriptor_waiter_type = DescriptorWaiterObject::add_type(
        module, "penstock._core.DescriptorWaiter",
        "The future that a task blocks on until a descriptor is ready.");
    return state->descriptor_waiter_type != nullptr;
}

} // namespace penstock::python
