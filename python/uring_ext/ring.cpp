#include "ring.hpp"

#include "buffer_pool.hpp"
#include "intentional_leak.hpp"
#include "setup.hpp"
#include "submission_queue.hpp"

#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>

#include <structmember.h>
#include <unistd.h>

namespace penstock::python::uring {

namespace {

using Life = RingObject::Life;

RingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<RingObject*>(object);
}

/// The features that a ring requires: the kernel keeps completions that overflow, arguments need to
/// live only until the submission, and waits have time limits (Linux 5.11).
constexpr unsigned needed_features =
    IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG;

PyObject* ring_new(PyTypeObject* type, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) {
        return nullptr;
    }
    RingObject* self = self_of(object);
    new (&self->operations) OperationTable;
    new (&self->finished) std::deque<Finished>;
    new (&self->recycled) RecycledBytes;
    new (&self->direct_marks) std::array<DirectMark, 16>;
    new (&self->registered) std::vector<Py_buffer>;
    self->ring.ring_fd = -1;
    self->state = state_of(type);
    self->next_ticket = std::uint64_t{1} << 32;
    return object;
}

/// `Ring(entries, flags, cq_entries, sq_thread_cpu, sq_thread_idle)`, as in io_uring_setup(2).
int ring_init(PyObject* object, PyObject* arguments, PyObject* keywords) {
    RingObject* self = self_of(object);
    static const char* names[] = {"entries",       "flags",          "cq_entries",
                                  "sq_thread_cpu", "sq_thread_idle", nullptr};
    unsigned entries = 0;
    io_uring_params params{};
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "IIIII", const_cast<char**>(names),
                                    &entries, &params.flags, &params.cq_entries,
                                    &params.sq_thread_cpu, &params.sq_thread_idle) == 0) {
        return -1;
    }
    std::unique_ptr<io::ForkMark> fork_mark;
    try {
        fork_mark = std::make_unique<io::ForkMark>();
    } catch (const std::exception&) { // no memory for a page, or for the object
        PyErr_NoMemory();
        return -1;
    }
    io_uring ring{};
    const int result = set_up_ring(entries, ring, params);
    if (result < 0) {
        raise_error(self->state, -result, "io_uring_setup() failed: %s", std::strerror(-result));
        return -1;
    }
    if ((params.features & needed_features) != needed_features) {
        io_uring_queue_exit(&ring);
        raise_error(self->state, ENOSYS, "this kernel's io_uring is too old; Linux 5.11 is needed");
        return -1;
    }
    if (const int error = io_uring_ring_dontfork(&ring); error < 0) {
        io_uring_queue_exit(&ring);
        raise_error(self->state, -error,
                    "the ring's memory cannot be excluded from child processes: %s",
                    std::strerror(-error));
        return -1;
    }
    // Checked last: reading the arguments, or another thread meanwhile, may have run this function.
    if (self->life != Life::closed || self->owner != 0) {
        io_uring_queue_exit(&ring);
        PyErr_SetString(PyExc_RuntimeError, "a ring is initialised once; make a new one instead");
        return -1;
    }
    self->ring = ring;
    self->owner = PyThread_get_thread_ident();
    self->fork_mark = fork_mark.release();
    self->life = Life::open;
    return 0;
}

/// Closes descriptors that completed operations have opened and that the program has not received.
void drop_finished(RingObject* self) noexcept {
    while (!self->finished.empty()) {
        const Finished dropped = self->finished.front();
        self->finished.pop_front();
        if (dropped.yields_fd) {
            close(dropped.result);
        }
        if (dropped.slot != OperationTable::no_slot) {
            drop(self->operations.remove(dropped.slot));
        }
        Py_XDECREF(dropped.tag);
        Py_XDECREF(dropped.bytes);
    }
}

/// Frees the ring's memory and descriptor once nothing is in flight.
void exit_ring(RingObject* self) noexcept {
    self->life = Life::closed;
    io_uring_queue_exit(&self->ring);
    self->ring.ring_fd = -1;
    release_registered(self);
    drop_finished(self);
    self->recycled.clear();
}

/// In the child of a fork the ring's memory is not mapped. Only the descriptor exists.
void abandon_in_child(RingObject* self) noexcept {
    if (self->ring.ring_fd >= 0) {
        close(std::exchange(self->ring.ring_fd, -1));
    }
    self->life = Life::abandoned;
    drop_finished(self);
    self->operations.leak();
    for (const Py_buffer& each : self->registered) {
        mark_intentional_leak(each.obj);
    }
    self->registered.clear();
    self->pool = nullptr;
}

/// The last step of closing. `drained`: the kernel has finished all operations.
void end(RingObject* self, bool drained) noexcept {
    if (is_forked(self)) { // code that ran while completed operations were released may have forked
        abandon_in_child(self);
    } else if (drained) {
        exit_ring(self);
    } else {
        abandon(self);
    }
}

PyObject* ring_close(PyObject* object, PyObject* /*unused*/) {
    RingObject* self = self_of(object);
    if (self->life != Life::open) {
        Py_RETURN_NONE;
    }
    if (is_forked(self)) {
        abandon_in_child(self);
        Py_RETURN_NONE;
    }
    if (!check_usable(self)) {
        return nullptr;
    }
    self->life = Life::closing;
    const Ref alive = Ref::borrow(object);
    end(self, drain(self));
    Py_RETURN_NONE;
}

/// Closes the ring of a thread that has ended. The kernel has then ended all its operations.
PyObject* close_ended(PyObject* object, PyObject* /*unused*/) {
    RingObject* self = self_of(object);
    if (self->life == Life::open && !is_forked(self)) {
        self->life = Life::closing;
        reap(self);
        end(self, self->operations.in_flight() == 0);
    }
    Py_RETURN_NONE;
}

void finalize(PyObject* object) {
    RingObject* self = self_of(object);
    if (self->life != Life::open) {
        return;
    }
    Ref raised = take_exception();
    if (is_forked(self)) {
        abandon_in_child(self);
    } else {
        if (PyErr_ResourceWarning(object, 1, "unclosed ring %R; close() it or use 'with'", object) <
            0) {
            PyErr_WriteUnraisable(object);
        }
        const bool own_thread = self->owner == PyThread_get_thread_ident();
        self->life = Life::closing;
        reap(self); // where the ring's thread has ended, all its operations have
        end(self, own_thread ? drain(self) : self->operations.in_flight() == 0);
    }
    if (raised) {
        raise_exception(std::move(raised));
    }
}

int ring_traverse(PyObject* object, visitproc visit, void* arg) {
    RingObject* self = self_of(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(reinterpret_cast<PyObject*>(self->pool));
    for (const Py_buffer& view : self->registered) {
        Py_VISIT(view.obj);
    }
    for (const Finished& each : self->finished) {
        Py_VISIT(each.tag);
        Py_VISIT(each.bytes);
    }
    return self->operations.traverse(visit, arg);
}

int ring_clear(PyObject* /*object*/) {
    return 0; // the finalizer has closed the ring and released everything
}

void ring_dealloc(PyObject* object) {
    if (PyObject_CallFinalizerFromDealloc(object) < 0) {
        return;
    }
    RingObject* self = self_of(object);
    PyTypeObject* type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->life == Life::open) {
        abandon_in_child(
            self); // the finalizer ran before the ring was revived: nothing is safe to free
    }
    drop_finished(self);
    self->operations.~OperationTable();
    self->finished.~deque();
    self->recycled.~RecycledBytes();
    self->registered.~vector();
    delete self->fork_mark;
    type->tp_free(object);
    Py_DECREF(type);
}

PyObject* get_entries(PyObject* object, void* /*unused*/) {
    const RingObject* self = self_of(object);
    return PyLong_FromUnsignedLong(self->life == Life::open ? self->ring.sq.ring_entries : 0);
}

PyObject* get_cq_entries(PyObject* object, void* /*unused*/) {
    const RingObject* self = self_of(object);
    return PyLong_FromUnsignedLong(self->life == Life::open ? self->ring.cq.ring_entries : 0);
}

PyObject* get_in_flight(PyObject* object, void* /*unused*/) {
    return PyLong_FromSize_t(self_of(object)->operations.in_flight());
}

PyObject* get_prepared(PyObject* object, void* /*unused*/) {
    RingObject* self = self_of(object);
    const bool mapped = self->life == Life::open && !is_forked(self);
    return PyLong_FromUnsignedLong(mapped ? SubmissionQueue(self).prepared() : 0);
}

PyObject* get_descriptor(PyObject* object, void* /*unused*/) {
    return PyLong_FromLong(self_of(object)->ring.ring_fd);
}

PyObject* get_setup_flags(PyObject* object, void* /*unused*/) {
    return PyLong_FromUnsignedLong(self_of(object)->ring.flags);
}

PyObject* get_features(PyObject* object, void* /*unused*/) {
    return PyLong_FromUnsignedLong(self_of(object)->ring.features);
}

PyObject* get_closed(PyObject* object, void* /*unused*/) {
    return PyBool_FromLong(self_of(object)->life != Life::open);
}

PyObject* ring_repr(PyObject* object) {
    const RingObject* self = self_of(object);
    if (self->life != Life::open) {
        return PyUnicode_FromFormat("<%s closed>", Py_TYPE(object)->tp_name);
    }
    return PyUnicode_FromFormat("<%s fd=%d, %zu operations in flight>", Py_TYPE(object)->tp_name,
                                self->ring.ring_fd, self->operations.in_flight());
}

PyObject* ring_enter(PyObject* object, PyObject* /*unused*/) {
    return check_usable(self_of(object)) ? Py_NewRef(object) : nullptr;
}

PyObject* ring_exit(PyObject* object, PyObject* const* /*arguments*/, Py_ssize_t /*count*/) {
    return ring_close(object, nullptr);
}

PyMethodDef life_methods[] = {
    {"close", &ring_close, METH_NOARGS,
     "Cancel the operations in flight, wait for their end, and free the ring.\n\n"
     "Completions that were not taken are dropped; a descriptor that one of them has opened is\n"
     "closed. Closing twice is allowed. In the child of a fork only the descriptor is closed."},
    {"_close_ended", &close_ended, METH_NOARGS,
     "Close a ring whose thread has ended. May be called from any thread."},
    {"__enter__", &ring_enter, METH_NOARGS, nullptr},
    {"__exit__", as_function(&ring_exit), METH_FASTCALL, nullptr},
};

PyGetSetDef ring_attributes[] = {
    {"entries", &get_entries, nullptr, "Entries of the submission queue; 0 once closed.", nullptr},
    {"cq_entries", &get_cq_entries, nullptr, "Entries of the completion queue; 0 once closed.",
     nullptr},
    {"in_flight", &get_in_flight, nullptr,
     "Operations prepared or submitted whose final completion has not arrived.", nullptr},
    {"prepared", &get_prepared, nullptr, "Operations prepared and not submitted.", nullptr},
    {"ring_fd", &get_descriptor, nullptr, "The ring's descriptor; -1 once closed.", nullptr},
    {"setup_flags", &get_setup_flags, nullptr, "IORING_SETUP_* that the kernel accepted.", nullptr},
    {"features", &get_features, nullptr, "IORING_FEAT_* of the kernel.", nullptr},
    {"closed", &get_closed, nullptr, "Whether close() was called.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

/// Combines the method tables of all files.
std::vector<PyMethodDef>& all_methods() {
    static std::vector<PyMethodDef> methods = [] {
        std::vector<PyMethodDef> all(std::begin(life_methods), std::end(life_methods));
        for (const PyMethodDef* table : {submission_methods, completion_methods, prepare_methods,
                                         batch_methods, registration_methods}) {
            for (; table->ml_name != nullptr; ++table) {
                all.push_back(*table);
            }
        }
        all.push_back({nullptr, nullptr, 0, nullptr});
        return all;
    }();
    return methods;
}

} // namespace

bool is_forked(const RingObject* self) noexcept {
    return self->fork_mark != nullptr && self->fork_mark->in_child();
}

bool check_usable(RingObject* self) noexcept {
    if (self->life != Life::open) {
        PyErr_SetString(PyExc_ValueError, "the ring is closed");
        return false;
    }
    if (self->owner != PyThread_get_thread_ident()) {
        PyErr_Format(PyExc_RuntimeError,
                     "the ring belongs to thread %lu and was used from thread %lu; make a ring for "
                     "each thread",
                     self->owner, PyThread_get_thread_ident());
        return false;
    }
    if (is_forked(self)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the ring belongs to the parent process and does not work in a child of "
                        "fork(); make a new one here");
        return false;
    }
    return true;
}

void abandon(RingObject* self) noexcept {
    self->life = Life::abandoned;
    // The kernel ends operations in flight some time after the descriptor is closed. The queues may
    // be freed, the buffers may not.
    io_uring_queue_exit(&self->ring);
    self->ring.ring_fd = -1;
    drop_finished(self);
    self->operations.leak();
    for (const Py_buffer& each : self->registered) {
        mark_intentional_leak(each.obj);
    }
    self->registered.clear(); // and their exports are never released
    self->pool = nullptr;
}

bool add_ring_type(PyObject* module, ModuleState* state) {
    PyType_Slot slots[] = {
        {Py_tp_doc, const_cast<char*>("The native half of penstock.uring.UringCtx.")},
        {Py_tp_new, reinterpret_cast<void*>(&ring_new)},
        {Py_tp_init, reinterpret_cast<void*>(&ring_init)},
        {Py_tp_dealloc, reinterpret_cast<void*>(&ring_dealloc)},
        {Py_tp_finalize, reinterpret_cast<void*>(&finalize)},
        {Py_tp_traverse, reinterpret_cast<void*>(&ring_traverse)},
        {Py_tp_clear, reinterpret_cast<void*>(&ring_clear)},
        {Py_tp_repr, reinterpret_cast<void*>(&ring_repr)},
        {Py_tp_methods, all_methods().data()},
        {Py_tp_getset, ring_attributes},
        {0, nullptr},
    };
    PyType_Spec spec = {
        .name = "penstock._uring.Ring",
        .basicsize = sizeof(RingObject),
        .itemsize = 0,
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
                 Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    state->ring_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
    return state->ring_type != nullptr && PyModule_AddType(module, state->ring_type) == 0;
}

} // namespace penstock::python::uring
