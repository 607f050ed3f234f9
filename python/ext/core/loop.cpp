#include "core/loop.hpp"

#include "core/fd_callbacks.hpp"
#include "core/loop_clock.hpp"
#include "core/memory_reserve.hpp"
#include "core/named_arguments.hpp"
#include "core/scheduling.hpp"
#include "files/file_engine.hpp"
#include "net/address_cache.hpp"
#include "net/datagram_batch.hpp"
#include "net/datagram_transport.hpp"
#include "net/read_buffer.hpp"
#include "net/sock_calls.hpp"
#include "net/socket_transport.hpp"

#include <new>
#include <system_error>

#include <penstock/io/signal_pipe.hpp>

#include <structmember.h>

namespace penstock::python {

/// Delivers signals to the loop. The interpreter owns the handlers and writes to this pipe (the
/// wake-up descriptor of `signal.set_wakeup_fd`).
class InterpreterSignals : public io::SignalPipe {
public:
    InterpreterSignals(LoopObject* loop, io::Poller& poller)
        : SignalPipe(poller, &deliver), loop_(loop) {}

private:
    static void deliver(SignalPipe& pipe, int signal_number) {
        LoopObject* loop = static_cast<InterpreterSignals&>(pipe).loop_;
        // The interpreter's own handlers run first: they raise KeyboardInterrupt.
        if (loop->pending_exception == nullptr && PyErr_CheckSignals() != 0) {
            interrupt_with_raised(loop);
        }
        // Nevertheless: this number has left the pipe, and its handler is called in the next run.
        if (!Ref(PyObject_CallMethod(as_object(loop), "_handle_signal", "i", signal_number))) {
            report_raised(loop, "Exception while delivering a signal", nullptr, nullptr);
        }
    }

    LoopObject* loop_;
};

namespace {

/// The longest wait that is requested from the kernel at once, as in asyncio.
constexpr std::int64_t longest_wait = std::int64_t{24} * 3600 * 1'000'000'000;

LoopObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<LoopObject*>(object);
}

/// Marks one iteration: no other begins within it, and the loop cannot be closed during it.
class Iteration {
public:
    explicit Iteration(LoopObject* loop) noexcept : loop_(loop) { loop->iterating = true; }
    ~Iteration() { loop_->iterating = false; }
    Iteration(const Iteration&) = delete;
    Iteration& operator=(const Iteration&) = delete;

private:
    LoopObject* loop_; ///< the caller's method keeps it alive
};

bool raise_pending(LoopObject* loop) noexcept {
    if (loop->pending_exception == nullptr) {
        return false;
    }
    raise_exception(Ref(std::exchange(loop->pending_exception, nullptr)));
    return true;
}

// Runs one iteration. False with an exception set when an exception must leave the run.
[[gnu::hot]] bool run_iteration(LoopObject* loop) {
    const Iteration iteration(loop);
    io::EventLoop& io = *loop->io;
    std::int64_t timeout = io.prepare();
    if (loop->clock_overridden && raise_pending(loop)) {
        return false;
    }
    if (loop->stopping) {
        timeout = 0;
    }
    if (timeout < 0 || timeout > longest_wait) {
        timeout = timeout < 0 ? -1 : longest_wait;
    }
    int count = 0;
    if (timeout == 0) {
        count = io.block(0);
    } else {
        Py_BEGIN_ALLOW_THREADS count = io.block(timeout);
        Py_END_ALLOW_THREADS
    }
    if (count < 0 && PyErr_CheckSignals() != 0) {
        return false;
    }
    io.dispatch();
    return !raise_pending(loop);
}

bool ready_to_run(LoopObject* loop) noexcept {
    if (!check_open(loop)) {
        return false;
    }
    if (loop->iterating) {
        PyErr_SetString(PyExc_RuntimeError,
                        "This event loop is already running; its iterations cannot be nested");
        return false;
    }
    detect_clock_override(loop);
    loop->owner_thread = PyThread_get_thread_ident();
    loop->io->poll_eagerly();
    return true;
}

[[gnu::hot]] PyObject* run_until_stopped(PyObject* self, PyObject* /*unused*/) {
    LoopObject* loop = self_of(self);
    if (!ready_to_run(loop)) {
        return nullptr;
    }
    do {
        if (!run_iteration(loop)) {
            return nullptr;
        }
    } while (!loop->stopping);
    Py_RETURN_NONE;
}

PyObject* run_once(PyObject* self, PyObject* /*unused*/) {
    LoopObject* loop = self_of(self);
    if (!ready_to_run(loop) || !run_iteration(loop)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* stop(PyObject* self, PyObject* /*unused*/) {
    self_of(self)->stopping = true;
    Py_RETURN_NONE;
}

PyObject* is_running(PyObject* self, PyObject* /*unused*/) {
    const LoopObject* loop = self_of(self);
    return PyBool_FromLong(loop->thread_id != nullptr && loop->thread_id != Py_None);
}

PyObject* is_closed(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(self_of(self)->closed);
}

PyObject* get_debug(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(self_of(self)->debug);
}

PyObject* write_to_self(PyObject* self, PyObject* /*unused*/) {
    LoopObject* loop = self_of(self);
    if (loop->io != nullptr) {
        loop->io->wakeup().notify();
    }
    Py_RETURN_NONE;
}

template <Direction direction>
PyObject* set_callback(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    return set_fd_callback(self_of(self), direction, arguments, count);
}

template <Direction direction>
PyObject* set_users_callback(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords) {
    LoopObject* loop = self_of(self);
    if (keywords != nullptr && PyTuple_GET_SIZE(keywords) > 0) {
        if (count >= 2) {
            return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R",
                                direction == Direction::read ? "add_reader" : "add_writer",
                                PyTuple_GET_ITEM(keywords, 0));
        }
        return normalize_keywords({"add_reader", "fd", "callback"}, &set_users_callback<direction>,
                                  self, arguments, count, keywords);
    }
    if (count > 0 && !check_open(loop)) {
        return nullptr;
    }
    if (count > 0 && !check_no_transport(loop, arguments[0])) {
        return nullptr;
    }
    const Ref handle(set_fd_callback(loop, direction, arguments, count));
    if (!handle) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

template <Direction direction> PyObject* remove_callback(PyObject* self, PyObject* file_object) {
    const int removed = remove_fd_callback(self_of(self), direction, file_object);
    return removed < 0 ? nullptr : PyBool_FromLong(removed);
}

template <Direction direction>
PyObject* remove_users_callback(PyObject* self, PyObject* file_object) {
    LoopObject* loop = self_of(self);
    if (!loop->closed && !check_no_transport(loop, file_object)) {
        return nullptr;
    }
    return remove_callback<direction>(self, file_object);
}

PyObject* ensure_fd_no_transport(PyObject* self, PyObject* file_object) {
    LoopObject* loop = self_of(self);
    if (!loop->closed && !check_no_transport(loop, file_object)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// Returns the interest (1 read, 2 write) of callbacks or a transport in a descriptor.
PyObject* watched_events(PyObject* self, PyObject* file_object) {
    LoopObject* loop = self_of(self);
    const int fd = PyObject_AsFileDescriptor(file_object);
    if (fd < 0) {
        PyErr_Clear();
    }
    const io::Watch* watch = loop->io != nullptr ? loop->io->poller().watch_of(fd) : nullptr;
    std::uint32_t interest = watch != nullptr ? watch->interest : 0;
    if (watch != nullptr && watch->on_ready == &FdCallbacks::on_ready_event) {
        interest = interest_of(static_cast<const FdCallbacks&>(*watch));
    }
    return PyLong_FromLong(((interest & io::readable) != 0 ? 1 : 0) |
                           ((interest & io::writable) != 0 ? 2 : 0));
}

PyObject* signal_write_end(PyObject* self, PyObject* /*unused*/) {
    const LoopObject* loop = self_of(self);
    if (loop->signals == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return nullptr;
    }
    return PyLong_FromLong(loop->signals->write_end());
}

void drop_queue(io::WorkQueue& queue) noexcept {
    while (io::Work* work = queue.pop_front()) {
        release_from_loop(HandleObject::of(*work));
    }
}

void drop_timers(io::TimerQueue& timers) noexcept {
    while (!timers.empty()) {
        io::Timer& timer = timers.any();
        timers.cancel(timer);
        release_from_loop(HandleObject::of(timer.work));
    }
}

/// Ends everything native. Drops callbacks that have not run and open transports. Their finalizers
/// may call the loop again.
void close_native(LoopObject* loop) noexcept {
    if (loop->io == nullptr || std::exchange(loop->ending, true)) {
        return;
    }
    if (loop->file_engine != nullptr) {
        close_file_engine(loop->file_engine);
    }
    remove_all_fd_callbacks(loop);
    release_transports(loop);
    release_datagram_transports(loop);
    loop->io->wakeup().collect(loop->io->ready());
    drop_queue(loop->io->ready());
    drop_timers(loop->io->timers());
    delete std::exchange(loop->signals, nullptr);
    io::EventLoop* io = std::exchange(loop->io, nullptr);
    drop_queue(io->ready()); // finalizers above may have scheduled something
    delete io;
    drop_read_buffer(loop);
    Py_CLEAR(loop->spare_bytes);
    Py_CLEAR(loop->getter);
    drop_reserve(loop);
    delete std::exchange(loop->datagrams, nullptr);
    delete std::exchange(loop->senders, nullptr);
    delete std::exchange(loop->record_memory, nullptr);
}

/// The handles of all timers, in no particular order: new references in a list of its own.
PyObject* list_timers(PyObject* self, PyObject* /*unused*/) {
    const LoopObject* loop = self_of(self);
    Ref list(PyList_New(0));
    if (!list || loop->io == nullptr) {
        return list.release();
    }
    // Appending runs no code of the program, so the queue does not change.
    const auto append = [&](io::Timer& timer) {
        return PyList_Append(list.get(), as_object(HandleObject::of(timer.work)));
    };
    return loop->io->timers().visit_all(append) == 0 ? list.release() : nullptr;
}

PyObject* get_file_engine(PyObject* self, PyObject* /*unused*/) {
    return Py_XNewRef(as_object(file_engine_of(self_of(self))));
}

PyObject* close_loop(PyObject* self, PyObject* /*unused*/) {
    LoopObject* loop = self_of(self);
    if (loop->iterating) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot close a running event loop");
        return nullptr;
    }
    loop->closed = true;
    close_native(loop);
    Py_RETURN_NONE;
}

PyObject* loop_new(PyTypeObject* type, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    Ref self(type->tp_alloc(type, 0));
    if (!self) {
        return nullptr;
    }
    LoopObject* loop = self_of(self.get());
    loop->state = state_of(type);
    if (loop->state == nullptr) {
        return nullptr;
    }
    loop->thread_id = Py_NewRef(Py_None);
    loop->task_factory = Py_NewRef(Py_None);
    loop->owner_thread = PyThread_get_thread_ident();
    if (!make_read_buffer(loop)) {
        return nullptr;
    }
    refill_reserve(loop);
    try {
        loop->fd_callbacks = new std::vector<std::unique_ptr<FdCallbacks>>;
        loop->io = new io::EventLoop;
        loop->signals = new InterpreterSignals(loop, loop->io->poller());
        detect_clock_override(loop);
    } catch (const std::system_error& error) {
        errno = error.code().value();
        return PyErr_SetFromErrno(PyExc_OSError);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    return self.release();
}

int loop_set_attribute(PyObject* self, PyObject* name, PyObject* value) {
    if (PyObject_GenericSetAttr(self, name, value) != 0) {
        return -1;
    }
    // Test tools install their own clock this way.
    if (PyUnicode_CompareWithASCIIString(name, "time") == 0) {
        detect_clock_override(self_of(self));
    }
    return 0;
}

int loop_traverse(PyObject* self, visitproc visit, void* arg) {
    LoopObject* loop = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(loop->thread_id);
    Py_VISIT(loop->task_factory);
    Py_VISIT(loop->getter);
    Py_VISIT(loop->current_handle);
    Py_VISIT(loop->pending_exception);
    Py_VISIT(loop->end_of_call_events);
    Py_VISIT(loop->file_engine);
    if (const int result = traverse_fd_callbacks(loop, visit, arg)) {
        return result;
    }
    // A running loop is alive, and with it all that its handles own. To the collector, references
    // that are not visited come from outside: the same result, without three visits of each
    // waiting handle.
    if (loop->io != nullptr && !loop->iterating) {
        const auto visit_handle = [&](io::Work& work) -> int {
            return traverse_owned(HandleObject::of(work), visit, arg);
        };
        if (const int result = loop->io->ready().visit_all(visit_handle)) {
            return result;
        }
        const auto visit_timer = [&](io::Timer& timer) { return visit_handle(timer.work); };
        if (const int result = loop->io->timers().visit_all(visit_timer)) {
            return result;
        }
    }
    if (const int result = traverse_datagram_transports(loop, visit, arg)) {
        return result;
    }
    return traverse_transports(loop, visit, arg);
}

int loop_clear(PyObject* self) {
    LoopObject* loop = self_of(self);
    loop->closed = true;
    close_native(loop);
    Py_CLEAR(loop->file_engine);
    Py_CLEAR(loop->thread_id);
    Py_CLEAR(loop->task_factory);
    Py_CLEAR(loop->current_handle);
    Py_CLEAR(loop->pending_exception);
    Py_CLEAR(loop->end_of_call_events);
    return 0;
}

void loop_dealloc(PyObject* self) {
    LoopObject* loop = self_of(self);
    PyObject_GC_UnTrack(self);
    if (loop->state != nullptr && loop->state->file_loop == loop) {
        loop->state->file_loop = nullptr;
    }
    loop_clear(self);
    free_handle_freelist(loop);
    delete loop->fd_callbacks;
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

template <bool LoopObject::* flag> PyObject* get_flag(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->*flag);
}

template <bool LoopObject::* flag> int set_flag(PyObject* self, PyObject* value, void* /*unused*/) {
    const int truth = value != nullptr ? PyObject_IsTrue(value) : 0;
    if (truth < 0) {
        return -1;
    }
    self_of(self)->*flag = truth != 0;
    return 0;
}

constexpr Parameters descriptor_of_reader{"remove_reader", "fd"};
constexpr Parameters descriptor_of_writer{"remove_writer", "fd"};

PyMethodDef loop_methods[] = {
    {"call_soon", as_function(&call_soon), METH_FASTCALL | METH_KEYWORDS,
     "Call a callback in the next iteration; returns a Handle."},
    {"call_soon_threadsafe", as_function(&call_soon_threadsafe), METH_FASTCALL | METH_KEYWORDS,
     "call_soon() from any thread; wakes the loop."},
    {"call_later", as_function(&call_later), METH_FASTCALL | METH_KEYWORDS,
     "Call a callback after a delay in seconds; returns a TimerHandle."},
    {"call_at", as_function(&call_at), METH_FASTCALL | METH_KEYWORDS,
     "Call a callback at a time of loop.time(); returns a TimerHandle."},
    {"time", &loop_time, METH_NOARGS, "The monotonic clock, in seconds."},
    {"create_future", &create_future, METH_NOARGS, "A new asyncio.Future of this loop."},
    {"create_task", as_function(&create_task), METH_FASTCALL | METH_KEYWORDS,
     "Schedule a coroutine; returns an asyncio.Task, or the task factory's result."},
    {"stop", &stop, METH_NOARGS, "End run_forever() after the current iteration."},
    {"is_running", &is_running, METH_NOARGS, "Whether the loop is running."},
    {"is_closed", &is_closed, METH_NOARGS, "Whether close() was called."},
    {"get_debug", &get_debug, METH_NOARGS, "Whether debug mode is on."},
    {"add_reader", as_function(&set_users_callback<Direction::read>), METH_FASTCALL | METH_KEYWORDS,
     "Call a callback whenever a descriptor is readable."},
    {"add_writer", as_function(&set_users_callback<Direction::write>),
     METH_FASTCALL | METH_KEYWORDS, "Call a callback whenever a descriptor is writable."},
    {"remove_reader",
     as_function(
         &with_one_parameter<&remove_users_callback<Direction::read>, descriptor_of_reader>),
     METH_FASTCALL | METH_KEYWORDS, "Undo add_reader(); returns whether there was one."},
    {"remove_writer",
     as_function(
         &with_one_parameter<&remove_users_callback<Direction::write>, descriptor_of_writer>),
     METH_FASTCALL | METH_KEYWORDS, "Undo add_writer(); returns whether there was one."},
    {"sock_recv", as_function(&sock_recv), METH_FASTCALL | METH_KEYWORDS,
     "Receive up to a number of bytes from a socket."},
    {"sock_recv_into", as_function(&sock_recv_into), METH_FASTCALL | METH_KEYWORDS,
     "Receive into a buffer; the result is the number of bytes."},
    {"sock_recvfrom", as_function(&sock_recvfrom), METH_FASTCALL | METH_KEYWORDS,
     "Receive a datagram; the result is (bytes, address)."},
    {"sock_recvfrom_into", as_function(&sock_recvfrom_into), METH_FASTCALL | METH_KEYWORDS,
     "Receive a datagram into a buffer; the result is (number of bytes, address)."},
    {"sock_sendall", as_function(&sock_sendall), METH_FASTCALL | METH_KEYWORDS,
     "Send all of the data."},
    {"sock_sendto", as_function(&sock_sendto), METH_FASTCALL | METH_KEYWORDS,
     "Send a datagram; the result is the number of bytes."},
    {"sock_accept", as_function(&sock_accept), METH_FASTCALL | METH_KEYWORDS,
     "Accept a connection; the result is (socket, address)."},
    {"sock_connect", as_function(&sock_connect), METH_FASTCALL | METH_KEYWORDS,
     "Connect a socket to an address."},
    {"_add_reader", as_function(&set_callback<Direction::read>), METH_FASTCALL, nullptr},
    {"_add_writer", as_function(&set_callback<Direction::write>), METH_FASTCALL, nullptr},
    {"_remove_reader", &remove_callback<Direction::read>, METH_O, nullptr},
    {"_remove_writer", &remove_callback<Direction::write>, METH_O, nullptr},
    {"_ensure_fd_no_transport", &ensure_fd_no_transport, METH_O, nullptr},
    {"_watched_events", &watched_events, METH_O, nullptr},
    {"_write_to_self", &write_to_self, METH_NOARGS, nullptr},
    {"_signal_write_end", &signal_write_end, METH_NOARGS, nullptr},
    {"_run_until_stopped", &run_until_stopped, METH_NOARGS, nullptr},
    {"_run_once", &run_once, METH_NOARGS, nullptr},
    {"_timers", &list_timers, METH_NOARGS, nullptr},
    {"_file_engine", &get_file_engine, METH_NOARGS, nullptr},
    {"_close_native", &close_loop, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// Attributes that BaseEventLoop's methods set on the instance and that the native half needs. Data
// descriptors of a type take precedence over the instance's dictionary.
PyGetSetDef loop_attributes[] = {
    {"_closed", &get_flag<&LoopObject::closed>, &set_flag<&LoopObject::closed>, nullptr, nullptr},
    {"_stopping", &get_flag<&LoopObject::stopping>, &set_flag<&LoopObject::stopping>, nullptr,
     nullptr},
    {"_debug", &get_flag<&LoopObject::debug>, &set_flag<&LoopObject::debug>, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef loop_members[] = {
    {"_thread_id", T_OBJECT, offsetof(LoopObject, thread_id), 0, nullptr},
    {"_task_factory", T_OBJECT, offsetof(LoopObject, task_factory), 0, nullptr},
    {"_current_handle", T_OBJECT, offsetof(LoopObject, current_handle), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot loop_slots[] = {
    {Py_tp_doc, const_cast<char*>("Native base of penstock.Loop.")},
    {Py_tp_new, reinterpret_cast<void*>(&loop_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&loop_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&loop_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&loop_clear)},
    {Py_tp_setattro, reinterpret_cast<void*>(&loop_set_attribute)},
    {Py_tp_methods, loop_methods},
    {Py_tp_members, loop_members},
    {Py_tp_getset, loop_attributes},
    {0, nullptr},
};

PyType_Spec loop_spec = {
    .name = "penstock._core.LoopCore",
    .basicsize = sizeof(LoopObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = loop_slots,
};

} // namespace

void schedule(LoopObject* loop, HandleObject* handle) noexcept {
    if (loop->io == nullptr) {
        release_from_loop(handle); // a finalizer has closed the loop since the caller's check
        return;
    }
    loop->io->schedule(handle->timer.work);
}

bool schedule_native(LoopObject* loop, NativeStep step, PyObject* target) noexcept {
    if (!check_open(loop)) {
        return false;
    }
    HandleObject* handle = make_native_handle(loop, step, target);
    if (handle == nullptr) {
        return false;
    }
    schedule(loop, handle);
    return true;
}

void interrupt_with_raised(LoopObject* loop) noexcept {
    Ref exception = take_exception();
    Py_XSETREF(loop->pending_exception, exception.release());
    if (loop->io != nullptr) {
        loop->io->interrupt();
    }
}

bool check_open(LoopObject* loop) noexcept {
    if (loop->closed || loop->io == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return false;
    }
    return true;
}

bool add_loop_type(PyObject* module, ModuleState* state) {
    state->loop_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &loop_spec, nullptr));
    return state->loop_type != nullptr && PyModule_AddType(module, state->loop_type) == 0;
}

} // namespace penstock::python
