#include "core/slow_callback.hpp"

namespace penstock::python {

void SlowCallbackWatch::report() const noexcept {
    if (loop_->pending_exception != nullptr) {
        return;
    }
    const io::MonotonicTime duration = io::monotonic_now() - began_;
    const Ref seconds(PyFloat_FromDouble(static_cast<double>(duration) / 1e9));
    PyObject* arguments[] = {as_object(loop_), subject_, seconds.get()};
    if (!seconds || !upcall(loop_->state, "report_slow_events", arguments, 3)) {
        PyErr_WriteUnraisable(subject_);
    }
}

} // namespace penstock::python
