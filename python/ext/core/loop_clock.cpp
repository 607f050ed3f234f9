#include "core/loop_clock.hpp"

#include "core/scheduling.hpp"

#include <cmath>

namespace penstock::python {

namespace {

/// 146 years. The difference of two such times cannot overflow.
constexpr double longest_time = 4.6e18;

/// The clock of the native loop. A raised exception ends the run; the returned time is then so
/// early that no timer is due.
io::MonotonicTime read_overridden_clock(void* context) {
    auto* loop = static_cast<LoopObject*>(context);
    double time = 0;
    if (read_time(loop, time)) {
        return deadline_of(time);
    }
    interrupt_with_raised(loop);
    return deadline_of(-longest_time);
}

bool is_native(LoopObject* loop, PyObject* method) noexcept {
    return PyCFunction_Check(method) && PyCFunction_GET_FUNCTION(method) == &loop_time &&
           PyCFunction_GET_SELF(method) == as_object(loop);
}

} // namespace

io::MonotonicTime deadline_of(double when) noexcept {
    const double nanoseconds = std::ceil(when * 1e9);
    if (nanoseconds >= longest_time) {
        return static_cast<io::MonotonicTime>(longest_time);
    }
    return nanoseconds > -longest_time ? static_cast<io::MonotonicTime>(nanoseconds)
                                       : -static_cast<io::MonotonicTime>(longest_time);
}

double native_time() noexcept {
    return static_cast<double>(io::monotonic_now()) / 1e9;
}

bool read_time(LoopObject* loop, double& time) noexcept {
    const Ref result(PyObject_CallMethodNoArgs(as_object(loop), loop->state->name_time));
    time = result ? PyFloat_AsDouble(result.get()) : -1.0;
    return time != -1.0 || PyErr_Occurred() == nullptr;
}

void detect_clock_override(LoopObject* loop) noexcept {
    Ref exception = take_exception();
    const Ref method(PyObject_GetAttr(as_object(loop), loop->state->name_time));
    PyErr_Clear(); // a failing override raises again when it is called
    if (exception) {
        raise_exception(std::move(exception));
    }
    loop->clock_overridden = !method || !is_native(loop, method.get());
    if (loop->io != nullptr) {
        loop->io->use_clock(loop->clock_overridden ? &read_overridden_clock : nullptr, loop);
    }
}

} // namespace penstock::python
