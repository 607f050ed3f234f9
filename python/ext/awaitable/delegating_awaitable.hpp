#pragma once

#include "awaitable/native_awaitable.hpp"

namespace penstock::python {

/// The base of coroutines that complete at once, or await a coroutine of Python in their place.
///
/// `Derived` also provides the data member `PyObject* delegate`, owned: that coroutine, or null. It
/// receives what is thrown into this one, and is closed with it.
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): NativeAwaitable's cannot be called
template <typename Derived> struct DelegatingAwaitable : NativeAwaitable<Derived> {
    static PyObject* throw_into(PyObject* self, PyObject* const* arguments,
                                Py_ssize_t count) noexcept {
        Derived* awaitable = Derived::of(self);
        if (awaitable->delegate == nullptr) {
            return NativeAwaitable<Derived>::throw_into(self, arguments, count);
        }
        if (!may_resume(awaitable->stage)) {
            return nullptr;
        }
        const Ref alive = Ref::borrow(self);
        awaitable->stage = AwaitStage::running;
        PyObject* yielded =
            throw_into_delegate(awaitable->state(), awaitable->delegate, arguments, count);
        awaitable->stage = AwaitStage::suspended;
        if (yielded == nullptr) {
            Py_CLEAR(awaitable->delegate);
            Derived::finish(awaitable); // a result is raised as StopIteration, as it is here
        }
        return yielded;
    }

    static PyObject* close(PyObject* self, PyObject* /*unused*/) noexcept {
        Derived* awaitable = Derived::of(self);
        if (!may_close(awaitable->stage)) {
            return nullptr;
        }
        const Ref alive = Ref::borrow(self);
        PyObject* closed = close_delegate(awaitable->delegate, awaitable->stage);
        Derived::finish(awaitable);
        return closed;
    }
};

} // namespace penstock::python
