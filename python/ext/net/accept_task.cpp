#include "net/accept_task.hpp"

#include "awaitable/native_awaitable.hpp"
#include "net/socket_transport.hpp"

namespace penstock::python {

namespace {

/// The coroutine. It yields once: its first step runs before the tasks that the protocol factories
/// schedule, its second one after them. An exception thrown into it closes the transports.
struct AcceptingObject : NativeAwaitable<AcceptingObject> {
    PyObject ob_base;
    PyObject* transports; ///< a list; null once the coroutine has ended
    AwaitStage stage;

    [[nodiscard]] static PyObject* owner() noexcept { return nullptr; }
    [[nodiscard]] static const char* name() noexcept { return "accept connections"; }

    static PySendResult advance(bool first, PyObject* /*value*/, PyObject** result) noexcept {
        *result = Py_NewRef(Py_None);
        return first ? PYGEN_NEXT : PYGEN_RETURN;
    }

    void release() noexcept { Py_CLEAR(transports); }

    int visit(visitproc visit, void* arg) const noexcept {
        Py_VISIT(transports);
        return 0;
    }

    static PyObject* throw_into(PyObject* self, PyObject* const* arguments,
                                Py_ssize_t count) noexcept;
};

PyObject* AcceptingObject::throw_into(PyObject* self, PyObject* const* arguments,
                                      Py_ssize_t count) noexcept {
    if (!may_resume(of(self)->stage)) {
        return nullptr;
    }
    const Ref transports = Ref::borrow(of(self)->transports);
    finish(of(self));
    // Closing one may call its protocol. Only the coroutine owns the list, so no other code changes
    // it.
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(transports.get()); ++i) {
        if (!close_gracefully(transport_of(PyList_GET_ITEM(transports.get(), i)))) {
            PyErr_Clear(); // the loop is closed, and the connection with it
        }
    }
    raise_thrown(arguments, count);
    return nullptr;
}

Ref make_accepting(const ModuleState* state) noexcept {
    Ref transports(PyList_New(0));
    if (!transports) {
        return Ref();
    }
    auto* accepting = PyObject_GC_New(AcceptingObject, state->accepting_type);
    if (accepting == nullptr) {
        return Ref();
    }
    accepting->transports = transports.release();
    accepting->stage = AwaitStage::created;
    PyObject_GC_Track(as_object(accepting));
    return Ref(as_object(accepting));
}

/// Bypasses the program's task factory, which expects coroutines of the program.
Ref make_task(LoopObject* loop, PyObject* coroutine) noexcept {
    PyObject* stack[] = {nullptr, coroutine, as_object(loop)};
    return Ref(PyObject_Vectorcall(loop->state->task_type, stack + 1,
                                   1 | PY_VECTORCALL_ARGUMENTS_OFFSET, loop->state->keywords_loop));
}

} // namespace

AcceptTask::AcceptTask(LoopObject* loop) noexcept
    : loop_(loop), coroutine_(make_accepting(loop->state)) {
    if (!coroutine_ || !make_task(loop, coroutine_.get())) {
        report_raised(loop, "Exception while accepting connections", nullptr, nullptr);
    }
}

void AcceptTask::add(PyObject* transport) noexcept {
    PyObject* transports = coroutine_ ? AcceptingObject::of(coroutine_.get())->transports : nullptr;
    if (transports != nullptr && PyList_Append(transports, transport) != 0) {
        report_raised(loop_, "Exception while accepting connections", nullptr, nullptr);
    }
}

bool add_accepting_type(PyObject* module, ModuleState* state) {
    state->accepting_type = AcceptingObject::add_type(
        module, "penstock._core.Accepting", "Connections whose protocols are about to begin.");
    return state->accepting_type != nullptr;
}

} // namespace penstock::python
