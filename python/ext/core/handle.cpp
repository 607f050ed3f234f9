#include "core/handle.hpp"

#include "core/loop.hpp"
#include "core/memory_reserve.hpp"
#include "core/slow_callback.hpp"
#include "core/thread_safe_handle.hpp"

#include <cstdint>

#include <structmember.h>

namespace penstock::python {

namespace {

HandleObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<HandleObject*>(object);
}

[[gnu::hot]] void run_from_queue(io::Work& work) {
    HandleObject* handle = HandleObject::of(work);
    if (!handle->cancelled) {
        if (Py_TYPE(handle) == handle->loop->state->thread_safe_handle_type) {
            const ThreadSafeCall call(handle);
            invoke(handle);
        } else {
            invoke(handle);
        }
    }
    release_from_loop(handle);
}

[[gnu::hot]] HandleObject* allocate(LoopObject* loop, PyTypeObject* type) noexcept {
    HandleObject* handle = loop->handle_freelist;
    if (handle != nullptr) {
        loop->handle_freelist = reinterpret_cast<HandleObject*>(handle->callback);
        --loop->handle_freelist_size;
        PyObject_Init(as_object(handle), type);
    } else {
        handle = PyObject_New(HandleObject, type);
        if (handle == nullptr) {
            return nullptr;
        }
        handle->weak_references = nullptr;
        handle->description = nullptr;
        handle->source_traceback = nullptr;
    }
    new (&handle->timer) io::Timer(&run_from_queue);
    handle->loop = loop;
    Py_INCREF(loop);
    handle->callback = nullptr;
    handle->arguments = nullptr;
    handle->context = nullptr;
    handle->native = nullptr;
    handle->when = 0.0;
    handle->form = HandleObject::Arguments::none;
    handle->cancelled = false;
    handle->context_untracked = false;
    return handle;
}

/// Shows the context to the garbage collector again, before other code may see or free it.
///
/// A handle that is not from the freelist hides the copy that it has made. A program that schedules
/// 300,000 callbacks at once makes 300,000 contexts, and the collector walks all of them several
/// times: a third of the time of such a burst. The loop reports what a hidden context refers to.
void track_context(HandleObject* handle) noexcept {
    if (std::exchange(handle->context_untracked, false)) {
        PyObject_GC_Track(handle->context);
    }
}

PyObject* tracked_context(HandleObject* handle) noexcept {
    track_context(handle);
    return handle->context;
}

/// The contents of a handle, owned for one call. The callback may cancel the handle, run it again
/// or close the loop, and another thread may do so at the same time. Each of these makes the handle
/// drop some or all of its contents.
class HeldCall {
public:
    explicit HeldCall(HandleObject* handle) noexcept
        : loop_(Ref::borrow(as_object(handle->loop))), callback_(Ref::borrow(handle->callback)),
          arguments_(Ref::borrow(handle->arguments)),
          context_(Ref::borrow(tracked_context(handle))), form_(handle->form) {}

    [[nodiscard]] LoopObject* loop() const noexcept {
        return reinterpret_cast<LoopObject*>(loop_.get());
    }
    [[nodiscard]] PyObject* callback() const noexcept { return callback_.get(); }
    [[nodiscard]] PyObject* context() const noexcept { return context_.get(); }

    [[nodiscard]] PyObject* call() const noexcept {
        switch (form_) {
        case HandleObject::Arguments::none:
            return PyObject_CallNoArgs(callback_.get());
        case HandleObject::Arguments::one: {
            PyObject* stack[2] = {nullptr, arguments_.get()};
            return PyObject_Vectorcall(callback_.get(), stack + 1,
                                       1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
        }
        case HandleObject::Arguments::tuple:
            break;
        }
        return PyObject_Call(callback_.get(), arguments_.get(), nullptr);
    }

private:
    Ref loop_;
    Ref callback_;
    Ref arguments_;
    Ref context_;
    HandleObject::Arguments form_;
};

PyObject* handle_repr(PyObject* self) {
    HandleObject* handle = self_of(self);
    if (handle->description != nullptr) {
        return Py_NewRef(handle->description);
    }
    return upcall(state_of(Py_TYPE(self)), "describe_handle", &self, 1).release();
}

/// Saves the repr before the handle drops its callback: a program may log the handle later.
[[gnu::cold]] void keep_description(HandleObject* handle) noexcept {
    if (handle->description != nullptr) {
        return;
    }
    PyObject* description = handle_repr(as_object(handle));
    if (description == nullptr) {
        PyErr_WriteUnraisable(as_object(handle));
    }
    Py_XSETREF(handle->description, description);
}

[[gnu::cold]] void report_failed_callback(LoopObject* loop, HandleObject* handle) noexcept {
    if (exception_ends_program()) {
        interrupt_with_raised(loop);
        return;
    }
    const Ref exception = take_exception();
    const ReleasedReserve reserve(loop, exception.get());
    keep_description(handle);
    PyObject* arguments[] = {as_object(loop), as_object(handle), exception.get()};
    if (!upcall(loop->state, "report_failed_callback", arguments, 3)) {
        if (exception_ends_program()) {
            interrupt_with_raised(loop);
        } else {
            PyErr_WriteUnraisable(as_object(handle));
        }
    }
}

[[gnu::hot]] void call_in_context(const HeldCall& held, HandleObject* handle) noexcept {
    if (PyContext_Enter(held.context()) != 0) {
        report_failed_callback(held.loop(), handle);
        return;
    }
    PyObject* result = held.call();
    if (result != nullptr) {
        Py_DECREF(result);
        if (PyContext_Exit(held.context()) == 0) {
            return;
        }
    } else {
        Ref exception = take_exception();
        if (PyContext_Exit(held.context()) == 0) {
            raise_exception(std::move(exception));
        }
    }
    report_failed_callback(held.loop(), handle);
}

[[gnu::cold]] void call_in_debug_mode(const HeldCall& held, HandleObject* handle) noexcept {
    LoopObject* loop = held.loop();
    PyObject* outer = loop->current_handle;
    loop->current_handle = Py_NewRef(as_object(handle));
    const io::MonotonicTime start = io::monotonic_now();
    call_in_context(held, handle);
    const io::MonotonicTime duration = io::monotonic_now() - start;
    Py_XSETREF(loop->current_handle, outer);
    if (loop->pending_exception != nullptr) {
        return;
    }
    const Ref seconds(PyFloat_FromDouble(static_cast<double>(duration) / 1e9));
    PyObject* arguments[] = {as_object(loop), as_object(handle), seconds.get()};
    if (!seconds || !upcall(loop->state, "report_slow_callback", arguments, 3)) {
        PyErr_WriteUnraisable(as_object(handle));
    }
}

PyObject* arguments_as_tuple(HandleObject* handle) noexcept {
    switch (handle->form) {
    case HandleObject::Arguments::none:
        return PyTuple_New(0);
    case HandleObject::Arguments::one:
        return PyTuple_Pack(1, handle->arguments);
    case HandleObject::Arguments::tuple:
        break;
    }
    return Py_NewRef(handle->arguments);
}

[[gnu::hot]] PyObject* handle_cancel(PyObject* self, PyObject* /*unused*/) {
    cancel(self_of(self));
    Py_RETURN_NONE;
}

PyObject* handle_cancelled(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(self_of(self)->cancelled);
}

PyObject* handle_run(PyObject* self, PyObject* /*unused*/) {
    HandleObject* handle = self_of(self);
    if (handle->cancelled || handle->callback == nullptr) {
        Py_RETURN_NONE;
    }
    const Ref loop = Ref::borrow(as_object(handle->loop));
    invoke(handle);
    // An exception that ends the program leaves through this call: the loop may not be running, and
    // may never run again.
    auto* loop_object = reinterpret_cast<LoopObject*>(loop.get());
    if (PyObject* exception = std::exchange(loop_object->pending_exception, nullptr)) {
        raise_exception(Ref(exception));
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* handle_get_context(PyObject* self, PyObject* /*unused*/) {
    PyObject* context = tracked_context(self_of(self));
    return Py_NewRef(context != nullptr ? context : Py_None);
}

PyObject* timer_when(PyObject* self, PyObject* /*unused*/) {
    return PyFloat_FromDouble(self_of(self)->when);
}

PyObject* get_callback(PyObject* self, void* /*unused*/) {
    HandleObject* handle = self_of(self);
    return Py_NewRef(handle->callback != nullptr ? handle->callback : Py_None);
}

PyObject* get_arguments(PyObject* self, void* /*unused*/) {
    HandleObject* handle = self_of(self);
    if (handle->callback == nullptr) {
        Py_RETURN_NONE;
    }
    return arguments_as_tuple(handle);
}

PyObject* get_cancelled(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->cancelled);
}

PyObject* get_loop(PyObject* self, void* /*unused*/) {
    LoopObject* loop = self_of(self)->loop;
    return Py_NewRef(loop != nullptr ? as_object(loop) : Py_None);
}

PyObject* get_scheduled(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->timer.scheduled());
}

PyObject* get_when(PyObject* self, void* /*unused*/) {
    return PyFloat_FromDouble(self_of(self)->when);
}

PyObject* get_context_attribute(PyObject* self, void* /*unused*/) {
    return handle_get_context(self, nullptr);
}

void drop_contents(HandleObject* handle) noexcept {
    Py_CLEAR(handle->callback);
    Py_CLEAR(handle->arguments);
    track_context(handle);
    Py_CLEAR(handle->context);
    Py_CLEAR(handle->source_traceback);
    handle->form = HandleObject::Arguments::none;
}

[[gnu::hot]] void handle_dealloc(PyObject* self) {
    HandleObject* handle = self_of(self);
    if (handle->weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    drop_contents(handle);
    Py_CLEAR(handle->description);
    LoopObject* loop = std::exchange(handle->loop, nullptr);
    PyTypeObject* type = Py_TYPE(self);
    if (loop != nullptr && loop->handle_freelist_size < LoopObject::max_freelist_handles &&
        Py_REFCNT(loop) > 1) {
        handle->callback = as_object(loop->handle_freelist);
        loop->handle_freelist = handle;
        ++loop->handle_freelist_size;
    } else {
        PyObject_Free(self);
    }
    Py_XDECREF(loop);
    Py_DECREF(type);
}

/// Whether two timers are equal in asyncio's sense; -1 with an exception set. Comparing callbacks
/// and arguments runs Python code, which may cancel either handle.
int are_equal(HandleObject* left, HandleObject* right) noexcept {
    if (left == right) {
        return 1;
    }
    if (left->when != right->when || left->cancelled != right->cancelled) {
        return 0;
    }
    const auto same_objects = [](PyObject* one, PyObject* other) {
        const Ref mine = Ref::borrow(one != nullptr ? one : Py_None);
        const Ref others = Ref::borrow(other != nullptr ? other : Py_None);
        return PyObject_RichCompareBool(mine.get(), others.get(), Py_EQ);
    };
    const int same_callback = same_objects(left->callback, right->callback);
    if (same_callback <= 0) {
        return same_callback;
    }
    const Ref arguments(arguments_as_tuple(left));
    const Ref other_arguments(arguments ? arguments_as_tuple(right) : nullptr);
    return other_arguments ? same_objects(arguments.get(), other_arguments.get()) : -1;
}

// TimerHandle has asyncio's order: by deadline, with a matching hash.
PyObject* timer_compare(PyObject* self, PyObject* other, int operation) {
    if (Py_TYPE(self) != Py_TYPE(other)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    const HandleObject* left = self_of(self);
    const HandleObject* right = self_of(other);
    const bool asks_equality = operation != Py_LT && operation != Py_GT;
    const int equal = asks_equality ? are_equal(self_of(self), self_of(other)) : 0;
    if (equal < 0) {
        return nullptr;
    }
    const bool same = equal > 0;
    switch (operation) {
    case Py_EQ:
        return PyBool_FromLong(same);
    case Py_NE:
        return PyBool_FromLong(!same);
    case Py_LT:
        return PyBool_FromLong(left->when < right->when);
    case Py_LE:
        return PyBool_FromLong(left->when < right->when || same);
    case Py_GT:
        return PyBool_FromLong(left->when > right->when);
    case Py_GE:
        return PyBool_FromLong(left->when > right->when || same);
    default:
        Py_RETURN_NOTIMPLEMENTED;
    }
}

Py_hash_t timer_hash(PyObject* self) {
    const Ref when(PyFloat_FromDouble(self_of(self)->when));
    return when ? PyObject_Hash(when.get()) : -1;
}

PyMethodDef handle_methods[] = {
    {"cancel", &handle_cancel, METH_NOARGS,
     "Prevent the callback's call. Does nothing if it was already called."},
    {"cancelled", &handle_cancelled, METH_NOARGS, "Whether cancel() was called."},
    {"get_context", &handle_get_context, METH_NOARGS,
     "The contextvars.Context in which the callback is called."},
    {"_run", &handle_run, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef timer_methods[] = {
    {"when", &timer_when, METH_NOARGS, "The deadline in seconds, on the clock of loop.time()."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef handle_attributes[] = {
    {"_callback", &get_callback, nullptr, nullptr, nullptr},
    {"_args", &get_arguments, nullptr, nullptr, nullptr},
    {"_cancelled", &get_cancelled, nullptr, nullptr, nullptr},
    {"_context", &get_context_attribute, nullptr, nullptr, nullptr},
    {"_loop", &get_loop, nullptr, nullptr, nullptr},
    {"__class__", &asyncio_class<&ModuleState::asyncio_handle_type>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyGetSetDef timer_attributes[] = {
    {"_when", &get_when, nullptr, nullptr, nullptr},
    {"_scheduled", &get_scheduled, nullptr, nullptr, nullptr},
    {"__class__", &asyncio_class<&ModuleState::asyncio_timer_type>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef handle_members[] = {
    {"_source_traceback", T_OBJECT, offsetof(HandleObject, source_traceback), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(HandleObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot handle_slots[] = {
    {Py_tp_doc, const_cast<char*>("A callback that call_soon() scheduled.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&handle_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(&handle_repr)},
    {Py_tp_methods, handle_methods},
    {Py_tp_members, handle_members},
    {Py_tp_getset, handle_attributes},
    {0, nullptr},
};

PyType_Slot timer_slots[] = {
    {Py_tp_doc, const_cast<char*>("A callback that call_later() or call_at() scheduled.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&handle_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(&handle_repr)},
    {Py_tp_richcompare, reinterpret_cast<void*>(&timer_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(&timer_hash)},
    {Py_tp_methods, timer_methods},
    {Py_tp_getset, timer_attributes},
    {0, nullptr},
};

PyType_Spec handle_spec = {
    .name = "penstock._core.Handle",
    .basicsize = sizeof(HandleObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = handle_slots,
};

PyType_Spec timer_spec = {
    .name = "penstock._core.TimerHandle",
    .basicsize = sizeof(HandleObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = timer_slots,
};

} // namespace

HandleObject* make_handle(LoopObject* loop, PyTypeObject* type, PyObject* callback,
                          PyObject* const* arguments, Py_ssize_t count,
                          PyObject* context) noexcept {
    Ref own_context = context == nullptr || context == Py_None ? Ref(PyContext_CopyCurrent())
                                                               : Ref::borrow(context);
    if (!own_context) {
        return nullptr;
    }
    if (!PyContext_CheckExact(own_context.get())) {
        PyErr_Format(PyExc_TypeError, "context must be a contextvars.Context, not %R", context);
        return nullptr;
    }
    Ref own_arguments;
    if (count == 1) {
        own_arguments = Ref::borrow(arguments[0]);
    } else if (count > 1) {
        own_arguments = Ref(PyTuple_New(count));
        if (!own_arguments) {
            return nullptr;
        }
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyTuple_SET_ITEM(own_arguments.get(), i, Py_NewRef(arguments[i]));
        }
    }
    const bool in_burst = loop->handle_freelist == nullptr;
    HandleObject* handle = allocate(loop, type);
    if (handle == nullptr) {
        return nullptr;
    }
    handle->callback = Py_NewRef(callback);
    handle->arguments = own_arguments.release();
    handle->context = own_context.release();
    if (in_burst && (context == nullptr || context == Py_None)) {
        PyObject_GC_UnTrack(handle->context);
        handle->context_untracked = true;
    }
    handle->form = count == 0   ? HandleObject::Arguments::none
                   : count == 1 ? HandleObject::Arguments::one
                                : HandleObject::Arguments::tuple;
    if (loop->debug) {
        handle->source_traceback = upcall(loop->state, "capture_traceback", nullptr, 0).release();
        if (handle->source_traceback == nullptr) {
            Py_DECREF(handle);
            return nullptr;
        }
    }
    // Python code has run (a finalizer's or another thread's), so the loop may be closed.
    if (!check_open(loop)) {
        Py_DECREF(handle);
        return nullptr;
    }
    return handle;
}

HandleObject* make_native_handle(LoopObject* loop, NativeStep step, PyObject* target) noexcept {
    HandleObject* handle = allocate(loop, loop->state->handle_type);
    if (handle != nullptr) {
        handle->callback = Py_NewRef(target);
        handle->native = step;
    }
    return handle;
}

void invoke(HandleObject* handle) noexcept {
    const HeldCall held(handle);
    if (handle->native != nullptr) {
        const SlowCallbackWatch slowness(held.loop(), held.callback());
        handle->native(held.loop(), held.callback());
    } else if (held.loop()->debug) {
        call_in_debug_mode(held, handle);
    } else {
        call_in_context(held, handle);
    }
}

void cancel(HandleObject* handle) noexcept {
    if (handle->cancelled) {
        return;
    }
    handle->cancelled = true;
    if (handle->loop != nullptr && handle->loop->debug) {
        keep_description(handle);
    }
    const Ref callback(std::exchange(handle->callback, nullptr));
    const Ref arguments(std::exchange(handle->arguments, nullptr));
    handle->form = HandleObject::Arguments::none;
    if (handle->loop != nullptr && handle->timer.scheduled()) {
        handle->loop->io->timers().cancel(handle->timer);
        Py_DECREF(handle); // the heap's reference; the caller owns another
    }
}

void release_from_loop(HandleObject* handle) noexcept {
    if (Py_REFCNT(handle) > 1) {
        drop_contents(handle);
        Py_CLEAR(handle->loop);
    }
    Py_DECREF(handle);
}

int traverse_owned(HandleObject* handle, visitproc visit, void* arg) noexcept {
    // A handle with another owner keeps its contents alive. The collector must see that as a
    // reference from outside.
    if (Py_REFCNT(handle) == 1) {
        Py_VISIT(handle->loop);
        Py_VISIT(handle->callback);
        Py_VISIT(handle->arguments);
        if (handle->context_untracked) {
            // The handle's reference is the only one, so its references count as the handle's.
            PyTypeObject* type = Py_TYPE(handle->context);
            if (const int result = type->tp_traverse(handle->context, visit, arg)) {
                return result;
            }
        } else {
            Py_VISIT(handle->context);
        }
        Py_VISIT(handle->source_traceback);
    }
    return 0;
}

void free_handle_freelist(LoopObject* loop) noexcept {
    while (loop->handle_freelist != nullptr) {
        HandleObject* handle = loop->handle_freelist;
        loop->handle_freelist = reinterpret_cast<HandleObject*>(handle->callback);
        PyObject_Free(handle);
    }
    loop->handle_freelist_size = 0;
}

bool add_handle_types(PyObject* module, ModuleState* state) {
    state->handle_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &handle_spec, nullptr));
    if (state->handle_type == nullptr) {
        return false;
    }
    state->timer_handle_type = reinterpret_cast<PyTypeObject*>(
        PyType_FromModuleAndSpec(module, &timer_spec, as_object(state->handle_type)));
    return state->timer_handle_type != nullptr &&
           PyModule_AddType(module, state->handle_type) == 0 &&
           PyModule_AddType(module, state->timer_handle_type) == 0;
}

} // namespace penstock::python
