#pragma once

#include "serial/serial_reader.hpp"

namespace penstock::python {

/// The awaitable of `exchange`: writes a request and collects its answer up to a delimiter, a
/// length or a silence, or until a deadline.
///
/// The request is written in the first step, so nothing is sent for a coroutine that never runs.
/// The answer is still to come then: it waits before it reads. The deadline raises no exception
/// and cancels nothing: the result holds what has arrived. A cancellation leaves it in `unread`.
struct SerialExchangeObject : NativeAwaitable<SerialExchangeObject> {
    PyObject ob_base;
    SerialReaderObject* reader;     ///< owned, as all objects that follow
    DescriptorWaiterObject* waiter; ///< while it waits for data, else null
    PyObject* request;              ///< bytes; null for none, and once it was written
    PyObject* delimiter;            ///< bytes, or null
    PyObject* got;                  ///< bytes that no result holds yet, or null
    Py_ssize_t length;              ///< that ends the answer; 0 for none
    Py_ssize_t limit;               ///< of the bytes
    Py_ssize_t taken;               ///< of the request, by the driver
    Py_ssize_t end;                 ///< of the answer in `got`; -1 while it is not there
    double seconds;                 ///< from the end of the writing to the end of the answer
    double silence;                 ///< seconds that end the answer; 0 for none
    double ends_at;                 ///< on the loop's clock
    double deadline;                ///< the earlier one of that and the end of the silence
    long long sent_at;              ///< ns of CLOCK_MONOTONIC, as those that follow
    long long first_byte_at;        ///< 0 before it
    long long last_byte_at;
    bool refuses_strays;
    bool expired;  ///< `deadline` has passed
    bool yielding; ///< the result is there, and other tasks run first
    AwaitStage stage;

    [[nodiscard]] PyObject* owner() const noexcept { return as_object(reader); }
    [[nodiscard]] PyObject* awaited() const noexcept { return as_object(waiter); }
    [[nodiscard]] const char* name() const noexcept { return "exchange"; }
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;
};

/// The method `exchange` of a reader.
PyObject* exchange(PyObject* self, PyObject* arguments) noexcept;

/// The method `forget_input` of a reader.
PyObject* forget_input(PyObject* self, PyObject* unused) noexcept;

/// Cancels the timer of a reader that is being closed.
void drop_timer(SerialReaderObject* reader) noexcept;

} // namespace penstock::python
