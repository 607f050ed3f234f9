// A blocking ioctl in a thread of its own, which can be cancelled inside the system call.
//
// Rejected: the real-time signal by which the file engine interrupts its threads
// (src/io/files/thread_interrupt.hpp). It is lost if it arrives just before the system call, and no
// code here could repeat it. A cancellation stays pending; glibc reserves a signal for it.
// Asynchronous cancellation is safe here: while it is enabled the thread only makes the system
// call, and holds no lock. The thread is never one of Python's.
//
// The thread is detached from its start, and a lock keeps it from ending while it is cancelled.
// Rejected: pthread_detach after the cancellation. glibc's reads the thread's descriptor once more
// after the thread may free it (glibc bug 19951), and the memory may be unmapped by then.

#include "core/module.hpp"

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include <fcntl.h>
#include <penstock/io/blocked_signals.hpp>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::python {

namespace {

/// Shared by object and thread; the last owner destroys it.
struct Job {
    int fd = -1;   ///< a duplicate: the port may be closed and its number reused meanwhile
    int done = -1; ///< an eventfd
    unsigned long request = 0;
    unsigned long argument = 0;
    pthread_key_t key{};
    std::atomic<int> error{0};
    std::atomic<int> users{2};
    std::mutex ending;  ///< guards `ended`
    bool ended = false; ///< the thread's id is not valid any more

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

void drop_job(Job* job) noexcept {
    if (job->users.fetch_sub(1) == 1) {
        delete job;
    }
}

/// The thread's last step with its job. Not inlined: see `run`.
[[gnu::noinline]] void end_job(Job* job) noexcept {
    {
        const std::lock_guard lock(job->ending);
        job->ended = true;
    }
    drop_job(job);
}

/// Disables cancellation first: the thread may be cancelled while it is ending by itself. close(2)
/// is a cancellation point, and unwinding out of the destructor that calls it would call
/// std::terminate.
void end_job_at_thread_end(void* shared) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    end_job(static_cast<Job*>(shared));
}

/// The key of a thread's job, which ends when the thread does. Rejected: pthread_cleanup_push, as a
/// destructor in C++. A cancellation between two calls, where the compiler expects no exception,
/// would then call std::terminate; a function without destructors can be unwound from anywhere.
///
/// Empty when the process has no keys left.
std::optional<pthread_key_t> job_key() noexcept {
    static const std::optional<pthread_key_t> key = []() noexcept -> std::optional<pthread_key_t> {
        pthread_key_t made{};
        if (pthread_key_create(&made, &end_job_at_thread_end) != 0) {
            return std::nullopt;
        }
        return made;
    }();
    return key;
}

/// Called through a pointer that the loader has already resolved. The first call by name may run
/// the loader, and a cancellation inside it would corrupt its state.
const volatile decltype(&::ioctl) cancellable_ioctl = &::ioctl;

/// A cancellation takes effect only between the two changes of its type. Nothing in this function
/// may have a destructor, not even after inlining: see job_key().
void* run(void* shared) {
    auto* job = static_cast<Job*>(shared);
    if (const int error = pthread_setspecific(job->key, job)) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        job->error = error;
        eventfd_write(job->done, 1);
        end_job(job);
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
    Job* job; ///< null once it was dropped
    pthread_t thread;
    pid_t process; ///< the thread's process; a forked child has no thread
};

IoctlThreadObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<IoctlThreadObject*>(object);
}

/// An errno, or 0.
int start(IoctlThreadObject* self, Job& job) noexcept {
    pthread_attr_t detached{};
    if (const int error = pthread_attr_init(&detached)) {
        return error;
    }
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const io::BlockedSignals blocked;
    const int error = pthread_create(&self->thread, &detached, &run, &job);
    pthread_attr_destroy(&detached);
    return error;
}

/// Cancels the thread, unless it has ended.
void cancel_thread(pthread_t thread, Job* job) noexcept {
    const std::lock_guard lock(job->ending);
    if (!job->ended) {
        pthread_cancel(thread);
    }
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

void cancel_job(IoctlThreadObject* self) noexcept {
    Job* job = self->job;
    self->job = nullptr;
    if (job == nullptr) {
        return;
    }
    if (self->process == ::getpid()) {
        cancel_thread(self->thread, job);
        drop_job(job);
    } else {
        delete job; // a forked child's copy, which no thread shares
    }
}

PyObject* cancel(PyObject* self, PyObject* /*unused*/) {
    cancel_job(self_of(self));
    Py_RETURN_NONE;
}

void dealloc(PyObject* self) {
    cancel_job(self_of(self));
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"fileno", &get_fileno, METH_NOARGS,
     "A descriptor that is readable once the ioctl has returned; -1 after cancel()."},
    {"finish", &finish, METH_NOARGS, "Raise the ioctl's OSError, if it failed."},
    {"cancel", &cancel, METH_NOARGS, "End the ioctl and close its descriptors. Never blocks."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot type_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("IoctlThread(fd, request, argument): a blocking ioctl that has begun.")},
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
