// Up to Python 3.13, a thread that requests the GIL of an exiting interpreter is ended with
// pthread_exit(3), unless it is the finalizing thread. Usually the interpreter itself makes the
// request, in the middle of a Python function that this module has called. glibc then unwinds the
// stack through this module's frames: a noexcept frame ends the process (std::terminate), and the
// destructors of the others would drop references without the GIL.
//
// So such a thread is held here until the process has ended, as in Python 3.14. Every frame with a
// destructor, a handler or a noexcept names a personality routine, which the unwinder calls before
// it touches the frame. The linker (--wrap, see PenstockTargets.cmake) replaces that routine by
// this one.
//
// Rejected: checking for the interpreter's end wherever this module takes the GIL. That misses the
// interpreter's own requests, which come between any two byte codes.

#include "shared/ended_thread.hpp"

#include <Python.h>

#include <unistd.h>
#include <unwind.h>

namespace {

bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

[[noreturn]] void hang() noexcept {
    for (;;) {
        ::pause();
    }
}

} // namespace

namespace penstock::python {

void hang_if_finalizing() noexcept {
    if (is_finalizing()) {
        hang();
    }
}

} // namespace penstock::python

// The linker requires these names.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class exception_class,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context);

// `used`: link-time optimisation adds the callers after the linker has looked for them.
__attribute__((used, visibility("hidden"))) _Unwind_Reason_Code __wrap___gxx_personality_v0(
    int version, _Unwind_Action actions, _Unwind_Exception_Class exception_class,
    _Unwind_Exception* exception, _Unwind_Context* context) {
    // Other forced unwinding (pthread_cancel(3)) is left alone.
    if ((actions & _UA_FORCE_UNWIND) != 0 && is_finalizing()) {
        hang();
    }
    return __real___gxx_personality_v0(version, actions, exception_class, exception, context);
}

} // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
