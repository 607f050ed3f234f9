#include "core/eager_task.hpp"

#include "core/scheduling.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

namespace penstock::python {

namespace {

constexpr bool has_eager_tasks = PY_VERSION_HEX >= 0x030C0000;

/// Whether an attribute of the loop is this module's method.
template <typename Function> bool is_own(PyObject* loop, const char* name, Function method) {
    const Ref found(PyObject_GetAttrString(loop, name));
    if (!found) {
        PyErr_Clear();
        return false;
    }
    return PyCFunction_Check(found.get()) &&
           PyCFunction_GET_FUNCTION(found.get()) == as_function(method);
}

#if PY_VERSION_HEX < 0x030C0000
/// The next task's name. Null with an exception set.
Ref next_name(LoopObject* loop) noexcept {
    constexpr std::string_view begin = "Request-";
    std::array<char, 20> digits{};
    const char* end =
        std::to_chars(digits.data(), digits.data() + digits.size(), ++loop->tasks_begun).ptr;
    const auto size = static_cast<std::size_t>(end - digits.data());
    Ref name(PyUnicode_New(static_cast<Py_ssize_t>(begin.size() + size), 127));
    if (name) {
        Py_UCS1* text = PyUnicode_1BYTE_DATA(name.get());
        std::memcpy(text, begin.data(), begin.size());
        std::memcpy(text + begin.size(), digits.data(), size);
    }
    return name;
}

/// Calls the step that the task has scheduled. False with an exception set.
bool run_first_step(PyObject* step, PyObject* context) noexcept {
    if (PyContext_Enter(context) != 0) {
        return false;
    }
    const Ref result(PyObject_CallNoArgs(step));
    Ref exception = result ? Ref() : take_exception();
    PyContext_Exit(context);
    if (exception) {
        raise_exception(std::move(exception));
        return false;
    }
    return true;
}
#endif

} // namespace

bool may_begin_tasks(const ModuleState* state, PyObject* loop) noexcept {
    return PyObject_TypeCheck(loop, state->loop_type) != 0 &&
           is_own(loop, "create_task", &create_task) &&
           (has_eager_tasks || is_own(loop, "call_soon", &call_soon));
}

PyObject* keywords_of_task(PyObject* loop) noexcept {
    return has_eager_tasks
               ? Py_BuildValue("{sOsO}", "loop", loop, "eager_start", Py_True)
               : Py_BuildValue("{sOsOsO}", "loop", loop, "context", Py_None, "name", Py_None);
}

bool begins_plainly(const LoopObject* loop) noexcept {
    const ModuleState* state = loop->state;
    return (loop->task_factory == nullptr || loop->task_factory == Py_None) &&
           (has_eager_tasks || !loop->debug) &&
           PyDict_GetItemWithError(state->tasks_names, state->name_task) == state->task_type;
}

#if PY_VERSION_HEX >= 0x030C0000

Ref begin_task(LoopObject* loop, PyObject* keywords, PyObject* coroutine,
               PyObject* context) noexcept {
    const Ref arguments(PyTuple_Pack(1, coroutine));
    if (!arguments || PyContext_Enter(context) != 0) {
        return Ref();
    }
    // It copies the context that is entered.
    Ref task(PyObject_Call(loop->state->task_type, arguments.get(), keywords));
    Ref exception = task ? Ref() : take_exception();
    PyContext_Exit(context);
    if (exception) {
        raise_exception(std::move(exception));
    }
    return task;
}

#else

Ref begin_task(LoopObject* loop, PyObject* keywords, PyObject* coroutine,
               PyObject* context) noexcept {
    const ModuleState* state = loop->state;
    const Ref arguments(PyTuple_Pack(1, coroutine));
    const Ref own_context(PyContext_Copy(context));
    const Ref name = next_name(loop);
    if (!arguments || !own_context || !name ||
        PyDict_SetItem(keywords, state->name_context, own_context.get()) != 0 ||
        PyDict_SetItem(keywords, state->name_name, name.get()) != 0) {
        return Ref();
    }
    loop->first_step_context = own_context.get();
    Ref task(PyObject_Call(state->task_type, arguments.get(), keywords));
    loop->first_step_context = nullptr;
    const Ref step(std::exchange(loop->first_step, nullptr));
    if (task && step && !run_first_step(step.get(), own_context.get())) {
        task = Ref();
    }
    // The variables of a request that has ended are not kept.
    Ref exception = task ? Ref() : take_exception();
    if (PyDict_SetItem(keywords, state->name_context, Py_None) != 0) {
        PyErr_Clear();
    }
    if (exception) {
        raise_exception(std::move(exception));
    }
    return task;
}

#endif

} // namespace penstock::python
