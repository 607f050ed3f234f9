// A blocking ioctl in a thread of its own, which can be cancelled inside the system call.
//
// A signal would be the other way to interrupt it, but a library has none to itself. glibc has one
// for pthread_cancel, and asynchronous cancellation is safe here: within its reach the thread does
// nothing but the system call. Never Python's own thread: this one holds no lock of anybody's.

#include "module.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <optional>

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::python {

namespace {

/// What object and thread share; the last of the two to let go destroys it.
struct Job {
    int fd = -1;   ///< a duplicate: the port may be closed and its number used again meanwhile
    int done = -1; ///< an eventfd
    unsigned long request = 0;
    unsigned long argument = 0;
    pthread_key_t key{};
    std::atomic<int> error{0};
    std::atomic<int> users{2};

    Job() = default;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    ~Job() {
        if (fd >= 0) {
            ::close(fd);
        }
        if (done >= 0) {
            ::close(done);
        }
    }
};

void let_go(void* shared) {
    auto* job = static_cast<Job*>(shared);
    if (job->users.fetch_sub(1) == 1) {
        delete job;
    }
}

/// Not interruptible by a cancellation that comes as the thread ends by itself: close(2) is a point where it would
/// take effect, in the midst of a destructor that lets nothing through (std::terminate).
void let_go_at_end(void* shared) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    let_go(shared);
}

/// Under this key a thread has its job, which its end lets go of. Not pthread_cleanup_push: in C++ that is a
/// destructor, and a cancellation between two calls, where the compiler expects no exception, would end
/// the program (std::terminate). A function without destructors is unwound from anywhere.
///
/// Empty where the process has no key left.
std::optional<pthread_key_t> job_key() noexcept {
    static const std::optional<pthread_key_t> key = []() noexcept -> std::optional<pthread_key_t> {
        pthread_key_t made{};
        if (pthread_key_create(&made, &let_go_at_end) != 0) {
            return std::nullopt;
        }
        return made;
    }();
    return key;
}

/// The call through a pointer, which the loader has filled. A call by name may be resolved when it is first made:
/// here within reach of the cancellation, which would leave the loader's own state half changed.
const volatile decltype(&::ioctl) cancellable_ioctl = &::ioctl;

/// A cancellation takes effect between the two changes of its type, and nowhere else. Nothing in here may have a
/// destructor, also not once inlined: see job_key().
void* run(void* shared) {
    auto* job = static_cast<Job*>(shared);
    if (const int error = pthread_setspecific(job->key, job)) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        job->error = error;
        eventfd_write(job->done, 1);
        let_go(job);
        return nullptr;
    }
    int result = 0;
    do {
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
        result = cancellable_ioctl(job->fd, job->request, job->argument);
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, nullptr);
    } while (result < 0 && errno == EINTR);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    job->error = result < 0 ? errno : 0;
    eventfd_write(job->done, 1);
    return nullptr;
}

struct IoctlThreadObject {
    PyObject ob_base;
    Job* job; ///< null once it was let go
    pthread_t thread;
    pid_t process; ///< that has the thread: a forked child has not
};

IoctlThreadObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<IoctlThreadObject*>(object);
}

/// An errno, or 0.
int start(IoctlThreadObject* self, Job& job) noexcept {
    // The program's signals are for its own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&self->thread, nullptr, &run, &job);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error;
}

PyObject* raise_errno(int error) noexcept {
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

PyObject* new_ioctl_thread(PyTypeObject* type, PyObject* arguments, PyObject* /*keywords*/) {
    int fd = -1;
    unsigned long request = 0;
    unsigned long argument = 0;
    if (!PyArg_ParseTuple(arguments, "ikk:IoctlThread", &fd, &request, &argument)) {
        return nullptr;
    }
    const std::optional<pthread_key_t> key = job_key();
    if (!key) {
        return raise_errno(EAGAIN);
    }
    std::unique_ptr<Job> job(new (std::nothrow) Job);
    if (!job) {
        return PyErr_NoMemory();
    }
    job->request = request;
    job->argument = argument;
    job->key = *key;
    job->fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    job->done = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->fd < 0 || job->done < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) {
        return nullptr;
    }
    if (const int error = start(self_of(object), *job)) {
        Py_DECREF(object);
        return raise_errno(error);
    }
    self_of(object)->process = ::getpid();
    self_of(object)->job = job.release();
    return object;
}

PyObject* get_fileno(PyObject* self, PyObject* /*unused*/) {
    const Job* job = self_of(self)->job;
    return PyLong_FromLong(job != nullptr ? job->done : -1);
}

PyObject* finish(PyObject* self, PyObject* /*unused*/) {
    const Job* job = self_of(self)->job;
    const int error = job != nullptr ? job->error.load() : ECANCELED;
    if (error != 0) {
        return raise_errno(error);
    }
    Py_RETURN_NONE;
}

void abandon_job(IoctlThreadObject* self) noexcept {
    Job* job = self->job;
    self->job = nullptr;
    if (job == nullptr) {
        return;
    }
    if (self->process == ::getpid()) {
        pthread_cancel(self->thread);
        pthread_detach(self->thread);
        let_go(job);
    } else {
        delete job; // the child's copy, which no thread shares
    }
}

PyObject* cancel(PyObject* self, PyObject* /*unused*/) {
    abandon_job(self_of(self));
    Py_RETURN_NONE;
}

void dealloc(PyObject* self) {
    abandon_job(self_of(self));
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"fileno", &get_fileno, METH_NOARGS,
     "A descriptor that is readable once the ioctl has returned; -1 after cancel()."},
    {"finish", &finish, METH_NOARGS, "Raise the ioctl's OSError, if it failed."},
    {"cancel", &cancel, METH_NOARGS, "End it, and let go of its descriptors. Never blocks."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot type_slots[] = {
    {Py_tp_doc, const_cast<char*>("IoctlThread(fd, request, argument): a blocking ioctl, begun.")},
    {Py_tp_new, reinterpret_cast<void*>(&new_ioctl_thread)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec type_spec = {
    .name = "penstock._core.IoctlThread",
    .basicsize = sizeof(IoctlThreadObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = type_slots,
};

} // namespace

bool add_ioctl_thread_type(PyObject* module) {
    const Ref type(PyType_FromModuleAndSpec(module, &type_spec, nullptr));
    return type && PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type.get())) == 0;
}

} // namespace penstock::python
