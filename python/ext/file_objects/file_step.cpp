#include "file_objects/file_step.hpp"

#include "file_objects/file_types.hpp"
#include "files/file_calls.hpp"
#include "files/file_time_slice.hpp"

#include <cstddef>

namespace penstock::python {

namespace {

using Phase = FileStepObject::Phase;

/// The cost of so many calls, as `should_yield` counts.
constexpr std::int64_t cost_of_calls = std::int64_t{calls_between_checks} * 256;

PyObject* wait_for_turn(FileObject* file) noexcept {
    return PyObject_CallMethodNoArgs(as_object(file), file->state->name_take_turn);
}

PyObject* yield_to_others(FileObject* file) noexcept {
    return as_object(make_file_operation(file->binary->engine, yield_call));
}

PyObject* or_none(PyObject* argument) noexcept {
    return argument != nullptr ? argument : Py_None;
}

PyObject* call_slowly(FileObject* file, const FileMethod& method,
                      const CallArguments& given) noexcept {
    PyObject* values[] = {as_object(file), or_none(given.first), or_none(given.second)};
    return PyObject_VectorcallMethod(file->state->*method.slow, values,
                                     std::size_t{1} + method.arguments, nullptr);
}

/// Calls a method that returns nothing of interest.
void call_method(PyObject* object, PyObject* name) noexcept {
    if (!Ref(PyObject_CallMethodNoArgs(object, name))) {
        PyErr_WriteUnraisable(object);
    }
}

/// Gives up the turn once the engine has released the file's `current` operation, whose await has
/// failed, or ends here if it is still `awaited`. A raised exception stays raised.
void end_operation(FileObject* file, PyObject* awaited) noexcept {
    const ModuleState* state = file->state;
    if (state->name_end_turn == nullptr) { // the collector has cleared the module
        file->turn_taken = false;
        return;
    }
    Ref exception = take_exception();
    if (awaited != nullptr) {
        call_method(awaited, state->name_close);
    }
    call_method(as_object(file), state->name_end_turn);
    if (exception) {
        raise_exception(std::move(exception));
    }
}

} // namespace

bool is_slice_over(FileObject* file) noexcept {
    FileEngineObject* engine = file->binary->engine;
    if (engine == nullptr || engine->io == nullptr || engine->closing) {
        return false;
    }
    file->unchecked_calls = 0;
    return should_yield(engine, cost_of_calls);
}

void give_up_turn(FileObject* file) noexcept {
    if (file->waiting == nullptr || file->waiting == Py_None) {
        file->turn_taken = false;
        return;
    }
    Ref exception = take_exception();
    call_method(as_object(file), file->state->name_give_up_turn);
    if (exception) {
        raise_exception(std::move(exception));
    }
}

bool FileStepObject::begin_delegate(Phase next, PyObject* coroutine) noexcept {
    delegate = coroutine;
    if (coroutine == nullptr) {
        return false;
    }
    phase = next;
    return true;
}

/// The attempt, with the turn taken. If it is not successful, begins to wait.
PySendResult FileStepObject::attempt(PyObject** result) noexcept {
    switch (method->attempt(file, given, result)) {
    case AtOnce::done:
        return PYGEN_RETURN;
    case AtOnce::failed:
        return PYGEN_ERROR;
    case AtOnce::slow:
        break;
    }
    return begin_wait();
}

/// Begins to wait for what the attempt lacks, or the coroutine method.
PySendResult FileStepObject::begin_wait() noexcept {
    if (method->wait != nullptr && waits < method->most_waits) {
        wait = method->wait(file, given);
        if (wait.awaitable != nullptr) {
            if (!wait.in_parts) {
                ++waits;
            }
            if (wait.in_turn) {
                Py_XSETREF(file->binary->current, Py_NewRef(wait.awaitable));
            }
            begin_delegate(wait.in_turn ? Phase::operating : Phase::waiting, wait.awaitable);
            return PYGEN_NEXT;
        }
        if (PyErr_Occurred() != nullptr) {
            return PYGEN_ERROR;
        }
    }
    if (!method->takes_turn) {
        give_up_turn(file);
        phase = Phase::begun;
    }
    return begin_delegate(Phase::delegated, call_slowly(file, *method, given)) ? PYGEN_NEXT
                                                                               : PYGEN_ERROR;
}

/// The delegate has returned what the call has waited for.
PySendResult FileStepObject::take_answer(PyObject* answer, PyObject** result) noexcept {
    if (phase == Phase::operating) {
        Py_CLEAR(file->binary->current);
    }
    phase = Phase::has_turn;
    switch (wait.take(file, given, answer, wait.asked, result)) {
    case AtOnce::done:
        return PYGEN_RETURN;
    case AtOnce::failed:
        return PYGEN_ERROR;
    case AtOnce::slow:
        break;
    }
    return attempt(result);
}

PySendResult FileStepObject::advance(bool /*first*/, PyObject* value, PyObject** result) noexcept {
    Ref answer; // owns `value` once the delegate has returned it
    for (;;) {
        if (delegate != nullptr) {
            const PySendResult sent = PyIter_Send(delegate, value, result);
            if (sent == PYGEN_NEXT) {
                return PYGEN_NEXT;
            }
            Py_CLEAR(delegate);
            if (phase == Phase::delegated) {
                phase = Phase::begun; // the turn was given up
                return sent;
            }
            if (sent == PYGEN_ERROR) {
                return PYGEN_ERROR;
            }
            answer = Ref(std::exchange(*result, nullptr));
            value = answer.get();
        }
        PySendResult step = PYGEN_NEXT;
        switch (phase) {
        case Phase::begun:
            if (method->uses_turn && file->turn_taken) {
                const bool waits_for_turn =
                    method->takes_turn
                        ? begin_delegate(Phase::queued, wait_for_turn(file))
                        : begin_delegate(Phase::delegated, call_slowly(file, *method, given));
                if (!waits_for_turn) {
                    return PYGEN_ERROR;
                }
                break;
            }
            file->turn_taken = file->turn_taken || method->uses_turn;
            [[fallthrough]];
        case Phase::queued:
            phase = Phase::has_turn;
            // Not before a method that takes no turn: close() must have begun when it is cancelled.
            if (method->takes_turn && (std::exchange(yields_first, false) || must_yield(file))) {
                if (!method->uses_turn) {
                    // Without the turn, only an operation keeps the descriptor while others run. It
                    // is left to find that it should yield.
                    file->binary->engine->slice_credit = 0;
                    step = begin_wait();
                    break;
                }
                if (!begin_delegate(Phase::yielding, yield_to_others(file))) {
                    return PYGEN_ERROR;
                }
                break;
            }
            [[fallthrough]];
        case Phase::has_turn:
        case Phase::yielding:
            phase = Phase::has_turn;
            step = attempt(result);
            break;
        case Phase::waiting:
        case Phase::operating:
            step = take_answer(value, result);
            break;
        case Phase::delegated:
            PyErr_SetString(PyExc_RuntimeError, "the call has ended");
            return PYGEN_ERROR;
        }
        if (step != PYGEN_NEXT) {
            return step;
        }
        value = Py_None; // the delegate begins
    }
}

/// Gives up the turn if it has it. Another delegate than the file's operation ends its own wait
/// when it is dropped.
void FileStepObject::release() noexcept {
    if (file == nullptr) {
        return;
    }
    const Phase before = std::exchange(phase, Phase::begun);
    Ref awaited(std::exchange(delegate, nullptr));
    if (before == Phase::operating) {
        end_operation(file, awaited.get());
    }
    awaited = Ref();
    if (method->uses_turn &&
        (before == Phase::has_turn || before == Phase::yielding || before == Phase::waiting)) {
        give_up_turn(file);
    }
    Py_CLEAR(given.first);
    Py_CLEAR(given.second);
    Py_CLEAR(file);
}

int FileStepObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(file);
    Py_VISIT(given.first);
    Py_VISIT(given.second);
    Py_VISIT(delegate);
    return 0;
}

/// The delegate receives the exception. It may go on, return or raise another one.
PyObject* FileStepObject::throw_into(PyObject* self, PyObject* const* arguments,
                                     Py_ssize_t count) noexcept {
    FileStepObject* call = of(self);
    if (call->delegate == nullptr) {
        return NativeAwaitable::throw_into(self, arguments, count);
    }
    if (!may_resume(call->stage)) {
        return nullptr;
    }
    const Ref alive = Ref::borrow(self);
    call->stage = AwaitStage::running;
    PyObject* yielded = throw_into_delegate(call->state(), call->delegate, arguments, count);
    call->stage = AwaitStage::suspended;
    if (yielded != nullptr) {
        return yielded;
    }
    Py_CLEAR(call->delegate);
    if (call->phase != Phase::delegated && PyErr_ExceptionMatches(PyExc_StopIteration) != 0) {
        const Ref ended = take_exception(); // the delegate has returned
        const Ref answer(PyObject_GetAttrString(ended.get(), "value"));
        if (answer) {
            return send(self, answer.get());
        }
    }
    if (call->phase == Phase::delegated) {
        call->phase = Phase::begun;
    }
    finish(call); // a result is raised as StopIteration, as it is here
    return nullptr;
}

PyObject* FileStepObject::close(PyObject* self, PyObject* /*unused*/) noexcept {
    FileStepObject* call = of(self);
    if (!may_close(call->stage)) {
        return nullptr;
    }
    const Ref alive = Ref::borrow(self);
    PyObject* closed = close_delegate(call->delegate, call->stage);
    finish(call);
    return closed;
}

PyObject* make_file_step(FileObject* file, const FileMethod& method, CallArguments given,
                         bool yields_first) noexcept {
    ModuleState* state = file->state;
    FileStepObject* call = FileStepObject::allocate(state, state->file_step_type);
    if (call == nullptr) {
        return nullptr;
    }
    call->file = file;
    Py_INCREF(file);
    call->method = &method;
    call->given = {Py_XNewRef(given.first), Py_XNewRef(given.second)};
    call->delegate = nullptr;
    call->stage = AwaitStage::created;
    call->phase = Phase::begun;
    call->waits = 0;
    call->yields_first = yields_first;
    PyObject_GC_Track(as_object(call));
    return as_object(call);
}

PyObject* call_file_method(FileObject* file, const FileMethod& method, const char* keyword,
                           PyObject* const* arguments, Py_ssize_t count,
                           PyObject* keywords) noexcept {
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count + named > 1) {
        return PyErr_Format(PyExc_TypeError, "%s() takes at most 1 argument, not %zd", method.name,
                            count + named);
    }
    if (named == 1 &&
        PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), keyword) != 0) {
        return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R",
                            method.name, PyTuple_GET_ITEM(keywords, 0));
    }
    return make_file_step(file, method, {count + named == 1 ? arguments[0] : nullptr});
}

bool take_arguments(const char* method, const char* const (&names)[2], Py_ssize_t required,
                    PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
                    CallArguments& given) noexcept {
    PyObject** const places[2] = {&given.first, &given.second};
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count + named < required || count + named > 2) {
        PyErr_Format(PyExc_TypeError, "%s() takes %s2 arguments, not %zd", method,
                     required < 2 ? "1 or " : "", count + named);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        *places[i] = arguments[i];
    }
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject* name = PyTuple_GET_ITEM(keywords, i);
        Py_ssize_t place = 0;
        while (place < 2 && PyUnicode_CompareWithASCIIString(name, names[place]) != 0) {
            ++place;
        }
        if (place == 2 || *places[place] != nullptr) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R", method,
                         name);
            return false;
        }
        *places[place] = arguments[count + i];
    }
    if (given.first == nullptr) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument %s", method, names[0]);
        return false;
    }
    return true;
}

Py_ssize_t size_argument(PyObject* argument) noexcept {
    if (argument == nullptr || argument == Py_None) {
        return -1;
    }
    if (!PyLong_CheckExact(argument)) {
        return -2;
    }
    const Py_ssize_t size = PyLong_AsSsize_t(argument);
    if (size == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        return -2;
    }
    return size < -1 ? -2 : size;
}

bool add_file_step_type(PyObject* module, ModuleState* state) {
    state->file_step_type = FileStepObject::add_type(module, "penstock._core.FileStep",
                                                     "A call of a file's method, to be awaited.");
    return state->file_step_type != nullptr;
}

} // namespace penstock::python
