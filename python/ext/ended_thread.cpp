// Up to Python 3.13 a thread other than the finalizing one is ended, with pthread_exit(3), when it asks for the GIL
// of an interpreter that has begun to exit. In most cases the one who asks is the interpreter itself, in
// the middle of a Python function that this module has called. glibc then unwinds the stack, through
// this module's frames: a noexcept one ends the process (std::terminate), and the destructors of
// the others would drop references without the GIL.
//
// So such a thread stays where it is until the process has ended, as Python 3.14 has it. Every frame
// with a destructor, a handler or a noexcept names a personality routine, which the unwinder asks
// before it touches the frame. The linker (--wrap, see PenstockTargets.cmake) puts this one in its place.
//
// Rejected: asking for the end of the interpreter wherever this module takes the GIL. That
// misses the interpreter's own requests, which come between any two byte codes.

#include "ended_thread.hpp"

#include <Python.h>

#include <unistd.h>
#include <unwind.h>

namespace {

bool interpreter_ends() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

[[noreturn]] void stay() noexcept {
    for (;;) {
        ::pause();
    }
}

} // namespace

namespace penstock::python {

void stay_if_interpreter_ends() noexcept {
    if (interpreter_ends()) {
        stay();
    }
}

} // namespace penstock::python

// The names are the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class exception_class,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context);

// `used`: with link-time optimisation its callers come into being after the linker has looked.
__attribute__((used, visibility("hidden"))) _Unwind_Reason_Code __wrap___gxx_personality_v0(
    int version, _Unwind_Action actions, _Unwind_Exception_Class exception_class,
    _Unwind_Exception* exception, _Unwind_Context* context) {
    // Other forced unwinding (pthread_cancel(3)) takes its ordinary course.
    if ((actions & _UA_FORCE_UNWIND) != 0 && interpreter_ends()) {
        stay();
    }
    return __real___gxx_personality_v0(version, actions, exception_class, exception, context);
}

} // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
