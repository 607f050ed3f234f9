#pragma once

#include "awaitable/coroutine_protocol.hpp"
#include "awaitable/waiting_task.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace penstock::python {

/// Concatenates the parts into one table.
template <typename T, std::size_t... sizes>
constexpr std::array<T, (sizes + ...)> concatenated(const std::array<T, sizes>&... parts) noexcept {
    std::array<T, (sizes + ...)> table{};
    auto end = table.begin();
    ((end = std::copy(parts.begin(), parts.end(), end)), ...);
    return table;
}

template <typename Derived>
inline constexpr bool is_coroutine = requires(Derived& awaitable) { awaitable.stage; };

template <typename Derived>
inline constexpr bool is_future = requires(Derived& awaitable) { awaitable.task; };

/// The base of this module's awaitables: slots, methods and attributes of their types, written
/// once.
///
/// An awaitable has one half or both:
/// - A coroutine, which `await`, create_task(), gather() and wait_for() accept: send(), throw(),
///   close() and the `cr_*` attributes. It can be awaited once.
/// - A future, which a task blocks on when a coroutine yields it: the part of asyncio.Future that
///   a task uses. It takes one callback.
///
/// `Derived` is the object's struct, with `PyObject ob_base` as its first data member. It provides:
/// - `PyObject* owner() const`: the owned object that must outlive this one, or null.
/// - `void release()`: ends its wait, and drops all references but `owner`'s. Called at the end of
///   the await, by the garbage collector and by the destructor, so more than once.
/// - `int visit(visitproc visit, void* arg) const`: for the garbage collector.
///
/// A coroutine also provides:
/// - the data member `AwaitStage stage`
/// - `PySendResult advance(bool first, PyObject* value, PyObject** result)`: begins (`first`), or
///   continues when its task sends again. `*result` is null at the call. The stage is `running`
///   during the call: Python code that it runs cannot resume it, throw into it or close it.
/// - `const char* name() const`, and optionally `const char* qualified_name() const`
/// - optionally `bool abandon()`: throw() or close() ends the await, and the result is dropped.
///   `release` follows. False with an exception set.
/// - optionally `PyObject* awaited() const`: `cr_await`, borrowed, or null.
/// - optionally `static constexpr bool warns_if_never_awaited = true`
///
/// A future also provides:
/// - the data member `WaitingTask task`
/// - `Ref owning_loop() const`: null with an exception set.
/// - `bool is_done() const`: whether the wait is over.
/// - `bool wake_soon()`: ends the wait and steps the task in the loop's next iteration. False with
///   an exception set; the wait then continues.
/// - optionally `bool check_result()`: the check of result() after a wait that was not cancelled;
///   false with an exception set.
///
/// A type whose objects are made and freed at each wait names the place of one spare object:
/// - `static constexpr PyObject* ModuleState::* spare`
///
/// A derived struct replaces `state` or a static function by a member of the same name. It extends
/// the type by `own_methods`, `own_attributes` and `own_slots`.
///
/// Everything is resolved at compile time. Rejected: virtual functions, since an object begins with
/// CPython's header; and a table of functions, since `advance` is on the path of every read.
template <typename Derived> struct NativeAwaitable {
    static constexpr bool warns_if_never_awaited = false;

    static Derived* of(PyObject* object) noexcept { return reinterpret_cast<Derived*>(object); }

    /// The type has no subclasses, so the search in `state_of` is not needed.
    [[nodiscard]] ModuleState* state() const noexcept {
        PyTypeObject* type = Py_TYPE(static_cast<const Derived*>(this));
        return static_cast<ModuleState*>(PyType_GetModuleState(type));
    }

    /// A new object whose fields are not set, which the collector does not track yet. Null with an
    /// exception set.
    static Derived* allocate(ModuleState* state, PyTypeObject* type) noexcept {
        if constexpr (requires { Derived::spare; }) {
            if (PyObject* self = std::exchange(state->*Derived::spare, nullptr)) {
                PyObject_Init(self, type);
                return of(self);
            }
        }
        return PyObject_GC_New(Derived, type);
    }

    /// Adds the type to the module; null with an exception set.
    static PyTypeObject* add_type(PyObject* module, const char* name, const char* doc) noexcept {
        // Types refer to these tables for as long as they live.
        static auto methods = concatenated(coroutine_methods(), future_methods(),
                                           Derived::own_methods(), std::array<PyMethodDef, 1>{});
        static auto attributes =
            concatenated(coroutine_attributes(), future_attributes(), Derived::own_attributes(),
                         std::array<PyGetSetDef, 1>{});
        auto slots = concatenated(
            std::array{
                PyType_Slot{Py_tp_doc, const_cast<char*>(doc)},
                PyType_Slot{Py_tp_dealloc, reinterpret_cast<void*>(&Derived::tp_dealloc)},
                PyType_Slot{Py_tp_traverse, reinterpret_cast<void*>(&tp_traverse)},
                PyType_Slot{Py_tp_clear, reinterpret_cast<void*>(&Derived::tp_clear)},
                PyType_Slot{Py_tp_methods, methods.data()},
                PyType_Slot{Py_tp_getset, attributes.data()},
            },
            coroutine_slots(), future_slots(), Derived::own_slots(), std::array<PyType_Slot, 1>{});
        PyType_Spec spec = {
            .name = name,
            .basicsize = sizeof(Derived),
            .itemsize = 0,
            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                     Py_TPFLAGS_IMMUTABLETYPE,
            .slots = slots.data(),
        };
        Ref type(PyType_FromModuleAndSpec(module, &spec, nullptr));
        auto* made = reinterpret_cast<PyTypeObject*>(type.get());
        if (!type || PyModule_AddType(module, made) != 0) {
            return nullptr;
        }
        return reinterpret_cast<PyTypeObject*>(type.release());
    }

    static std::array<PyMethodDef, 0> own_methods() noexcept { return {}; }
    static std::array<PyGetSetDef, 0> own_attributes() noexcept { return {}; }
    static std::array<PyType_Slot, 0> own_slots() noexcept { return {}; }

    // ---- the coroutine
    // -----------------------------------------------------------------------------

    static PySendResult am_send(PyObject* self, PyObject* value, PyObject** result) noexcept {
        Derived* awaitable = of(self);
        *result = nullptr;
        if (!may_resume(awaitable->stage)) {
            return PYGEN_ERROR;
        }
        const bool first =
            std::exchange(awaitable->stage, AwaitStage::running) == AwaitStage::created;
        const PySendResult sent = awaitable->advance(first, value, result);
        if (sent == PYGEN_NEXT) {
            awaitable->stage = AwaitStage::suspended;
        } else {
            finish(awaitable);
        }
        return sent;
    }

    static PyObject* tp_iternext(PyObject* self) noexcept {
        PyObject* result = nullptr;
        const PySendResult sent = am_send(self, Py_None, &result);
        return iterator_step(self, sent, result);
    }

    static PyObject* send(PyObject* self, PyObject* value) noexcept {
        if (!may_send(value, of(self)->stage != AwaitStage::created)) {
            return nullptr;
        }
        PyObject* result = nullptr;
        const PySendResult sent = am_send(self, value, &result);
        return send_step(sent, result);
    }

    static PyObject* throw_into(PyObject* self, PyObject* const* arguments,
                                Py_ssize_t count) noexcept {
        const Ref alive = Ref::borrow(self);
        if (may_resume(of(self)->stage) && end_early(of(self))) {
            raise_thrown(arguments, count);
        }
        return nullptr;
    }

    static PyObject* close(PyObject* self, PyObject* /*unused*/) noexcept {
        const Ref alive = Ref::borrow(self);
        return may_close(of(self)->stage) && end_early(of(self)) ? Py_NewRef(Py_None) : nullptr;
    }

    /// Ends the await and releases its resources.
    static void finish(Derived* awaitable) noexcept {
        if constexpr (is_coroutine<Derived>) {
            awaitable->stage = AwaitStage::finished;
        }
        awaitable->release();
    }

    /// Ends the await, if it has not ended, without taking its result. False with an exception set.
    static bool end_early(Derived* awaitable) noexcept {
        bool ended = true;
        if (awaitable->stage == AwaitStage::finished) {
            return ended;
        }
        if constexpr (requires { awaitable->abandon(); }) {
            ended = awaitable->abandon();
        }
        finish(awaitable);
        return ended;
    }

    // ---- the future
    // --------------------------------------------------------------------------------

    static PyObject* add_done_callback(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                       PyObject* keywords) noexcept {
        Derived* awaitable = of(self);
        if (!set_wakeup(awaitable->task, arguments, count, keywords) ||
            (awaitable->is_done() && !awaitable->wake_soon())) {
            return nullptr;
        }
        Py_RETURN_NONE;
    }

    static PyObject* remove_done_callback(PyObject* self, PyObject* callback) noexcept {
        const int removed = remove_wakeup(of(self)->task, callback);
        return removed >= 0 ? PyLong_FromLong(removed) : nullptr;
    }

    static PyObject* cancel(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                            PyObject* keywords) noexcept {
        Derived* awaitable = of(self);
        if (awaitable->is_done()) {
            Py_RETURN_FALSE;
        }
        const Ref alive = Ref::borrow(self);
        if (!note_cancel(awaitable->task, arguments, count, keywords)) {
            return nullptr;
        }
        if (!awaitable->wake_soon()) {
            awaitable->task.cancelled = false;
            return nullptr;
        }
        Py_RETURN_TRUE;
    }

    static PyObject* was_cancelled(PyObject* self, PyObject* /*unused*/) noexcept {
        return PyBool_FromLong(of(self)->task.cancelled ? 1 : 0);
    }

    static PyObject* get_done(PyObject* self, PyObject* /*unused*/) noexcept {
        return PyBool_FromLong(of(self)->is_done() ? 1 : 0);
    }

    static PyObject* get_result(PyObject* self, PyObject* /*unused*/) noexcept {
        Derived* awaitable = of(self);
        bool succeeded = raise_if_cancelled(awaitable->state(), awaitable->task);
        if constexpr (requires { awaitable->check_result(); }) {
            succeeded = succeeded && awaitable->check_result();
        }
        return succeeded ? Py_NewRef(Py_None) : nullptr;
    }

    static PyObject* get_loop(PyObject* self, void* /*unused*/) noexcept {
        const Ref loop = of(self)->owning_loop();
        return loop ? loop_getter(of(self)->state(), loop.get()) : nullptr;
    }

    static PyObject* get_blocking(PyObject* self, void* /*unused*/) noexcept {
        return PyBool_FromLong(of(self)->task.blocking ? 1 : 0);
    }

    static int set_blocking(PyObject* self, PyObject* value, void* /*unused*/) noexcept {
        return set_blocking_mark(of(self)->task, value);
    }

    static PyObject* tp_getattro(PyObject* self, PyObject* name) noexcept {
        if constexpr (is_coroutine<Derived>) {
            if (name == of(self)->state()->name_class && of(self)->stage == AwaitStage::suspended) {
                return Py_NewRef(of(self)->state()->future_type);
            }
        }
        return get_attribute(of(self)->state(), of(self)->task, self, name, &get_loop);
    }

    static int tp_setattro(PyObject* self, PyObject* name, PyObject* value) noexcept {
        return set_attribute(of(self)->state(), of(self)->task, self, name, value);
    }

    // ---- attributes
    // --------------------------------------------------------------------------------

    static PyObject* get_name(PyObject* self, void* /*unused*/) noexcept {
        return PyUnicode_FromString(of(self)->name());
    }

    static const char* qualified_name_of(const Derived* awaitable) noexcept {
        if constexpr (requires { awaitable->qualified_name(); }) {
            return awaitable->qualified_name();
        } else {
            return awaitable->name();
        }
    }

    static PyObject* get_qualified_name(PyObject* self, void* /*unused*/) noexcept {
        return PyUnicode_FromString(qualified_name_of(of(self)));
    }

    static PyObject* get_running(PyObject* self, void* /*unused*/) noexcept {
        return PyBool_FromLong(of(self)->stage == AwaitStage::running ? 1 : 0);
    }

    static PyObject* get_suspended(PyObject* self, void* /*unused*/) noexcept {
        return PyBool_FromLong(of(self)->stage == AwaitStage::suspended ? 1 : 0);
    }

    static PyObject* get_awaited(PyObject* self, void* /*unused*/) noexcept {
        PyObject* awaited = nullptr;
        if constexpr (requires { of(self)->awaited(); }) {
            awaited = of(self)->awaited();
        }
        return Py_NewRef(awaited != nullptr ? awaited : Py_None);
    }

    /// `cr_code` and similar attributes: a native coroutine has none of them.
    static PyObject* get_none(PyObject* /*self*/, void* /*unused*/) noexcept { Py_RETURN_NONE; }

    // ---- the object
    // --------------------------------------------------------------------------------

    static int tp_traverse(PyObject* self, visitproc visit, void* arg) noexcept {
        Py_VISIT(Py_TYPE(self));
        Py_VISIT(of(self)->owner());
        return of(self)->visit(visit, arg);
    }

    static int tp_clear(PyObject* self) noexcept {
        finish(of(self));
        return 0;
    }

    static void tp_finalize(PyObject* self) noexcept {
        Derived* awaitable = of(self);
        if (awaitable->stage == AwaitStage::created) {
            awaitable->stage = AwaitStage::finished;
            warn_never_awaited(self, qualified_name_of(awaitable));
        }
    }

    /// Calls tp_finalize where that is wanted; false when the finalizer made a reference to `self`.
    static bool finalized(PyObject* self) noexcept {
        if constexpr (Derived::warns_if_never_awaited) {
            return of(self)->stage != AwaitStage::created ||
                   PyObject_CallFinalizerFromDealloc(self) == 0;
        }
        return true;
    }

    /// Keeps the memory of a freed object for the next one. Not that of an object which was
    /// finalized: its mark would remain, and the next one would not be finalized.
    static bool became_spare(PyObject* self) noexcept {
        if constexpr (requires { Derived::spare; }) {
            // Null when the collector has cleared the type.
            PyObject* module = reinterpret_cast<PyHeapTypeObject*>(Py_TYPE(self))->ht_module;
            auto* state =
                module != nullptr ? static_cast<ModuleState*>(PyModule_GetState(module)) : nullptr;
            if (state != nullptr && state->*Derived::spare == nullptr && !state->keeps_no_spares &&
                PyObject_GC_IsFinalized(self) == 0) {
                state->*Derived::spare = self;
                return true;
            }
        }
        return false;
    }

    static void tp_dealloc(PyObject* self) noexcept {
        if (!finalized(self)) {
            return;
        }
        PyObject_GC_UnTrack(self);
        finish(of(self));
        PyObject* owner = of(self)->owner();
        PyTypeObject* type = Py_TYPE(self);
        if (!became_spare(self)) {
            PyObject_GC_Del(self);
        }
        Py_XDECREF(owner);
        Py_DECREF(type);
    }

private:
    NativeAwaitable() = default;
    friend Derived;

    static auto coroutine_methods() noexcept {
        if constexpr (is_coroutine<Derived>) {
            return std::array{
                PyMethodDef{"send", &send, METH_O, "Begin, or continue."},
                PyMethodDef{"throw", as_function(&Derived::throw_into), METH_FASTCALL,
                            "End it with an exception."},
                PyMethodDef{"close", &Derived::close, METH_NOARGS, "End it."},
            };
        } else {
            return std::array<PyMethodDef, 0>{};
        }
    }

    static auto coroutine_attributes() noexcept {
        if constexpr (is_coroutine<Derived>) {
            return std::array{
                PyGetSetDef{"__name__", &get_name, nullptr, nullptr, nullptr},
                PyGetSetDef{"__qualname__", &get_qualified_name, nullptr, nullptr, nullptr},
                PyGetSetDef{"cr_await", &get_awaited, nullptr, nullptr, nullptr},
                PyGetSetDef{"cr_code", &get_none, nullptr, nullptr, nullptr},
                PyGetSetDef{"cr_frame", &get_none, nullptr, nullptr, nullptr},
                PyGetSetDef{"cr_origin", &get_none, nullptr, nullptr, nullptr},
                PyGetSetDef{"cr_running", &get_running, nullptr, nullptr, nullptr},
                PyGetSetDef{"cr_suspended", &get_suspended, nullptr, nullptr, nullptr},
            };
        } else {
            return std::array<PyGetSetDef, 0>{};
        }
    }

    static auto coroutine_slots() noexcept {
        if constexpr (is_coroutine<Derived>) {
            const std::array slots{
                PyType_Slot{Py_am_await, reinterpret_cast<void*>(&await_itself)},
                PyType_Slot{Py_am_send, reinterpret_cast<void*>(&am_send)},
                PyType_Slot{Py_tp_iter, reinterpret_cast<void*>(&await_itself)},
                PyType_Slot{Py_tp_iternext, reinterpret_cast<void*>(&tp_iternext)},
            };
            if constexpr (Derived::warns_if_never_awaited) {
                const std::array finalizer{
                    PyType_Slot{Py_tp_finalize, reinterpret_cast<void*>(&tp_finalize)}};
                return concatenated(slots, finalizer);
            } else {
                return slots;
            }
        } else {
            return std::array<PyType_Slot, 0>{};
        }
    }

    static auto future_methods() noexcept {
        if constexpr (is_future<Derived>) {
            return std::array{
                PyMethodDef{"add_done_callback", as_function(&add_done_callback),
                            METH_FASTCALL | METH_KEYWORDS,
                            "Call a callback with this object when the wait is over."},
                PyMethodDef{"remove_done_callback", &remove_done_callback, METH_O,
                            "Undo add_done_callback(); returns how many were removed."},
                PyMethodDef{"cancel", as_function(&Derived::cancel), METH_FASTCALL | METH_KEYWORDS,
                            "End the wait with CancelledError; returns whether it was waiting."},
                PyMethodDef{"cancelled", &was_cancelled, METH_NOARGS,
                            "Whether cancel() ended the wait."},
                PyMethodDef{"done", &get_done, METH_NOARGS, "Whether the wait is over."},
                PyMethodDef{"result", &get_result, METH_NOARGS,
                            "None; raises CancelledError after cancel()."},
            };
        } else {
            return std::array<PyMethodDef, 0>{};
        }
    }

    /// A future that is also a coroutine answers for `_asyncio_future_blocking` in tp_getattro
    /// only: see `WaitingTask`.
    static auto future_attributes() noexcept {
        if constexpr (is_future<Derived> && is_coroutine<Derived>) {
            return std::array{PyGetSetDef{"get_loop", &get_loop, nullptr, nullptr, nullptr}};
        } else if constexpr (is_future<Derived>) {
            return std::array{
                PyGetSetDef{"get_loop", &get_loop, nullptr, nullptr, nullptr},
                PyGetSetDef{"_asyncio_future_blocking", &get_blocking, &set_blocking, nullptr,
                            nullptr},
            };
        } else {
            return std::array<PyGetSetDef, 0>{};
        }
    }

    static auto future_slots() noexcept {
        if constexpr (is_future<Derived>) {
            return std::array{
                PyType_Slot{Py_tp_getattro, reinterpret_cast<void*>(&tp_getattro)},
                PyType_Slot{Py_tp_setattro, reinterpret_cast<void*>(&tp_setattro)},
            };
        } else {
            return std::array<PyType_Slot, 0>{};
        }
    }
};

} // namespace penstock::python
