// The engine's side of file operations: submission, completion, and closes that wait for others.

#include "files/file_submission.hpp"

#include "files/file_calls.hpp"
#include "shared/cached_opening.hpp"

#include <new>

#include <penstock/io/files/read_status.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::python {

namespace {

/// Marks that the engine is calling a completion callback, which it must outlive.
class DeliveryScope {
public:
    explicit DeliveryScope(FileEngineObject* engine) noexcept : engine_(engine) {
        ++engine_->deliveries;
    }
    ~DeliveryScope() { --engine_->deliveries; }
    DeliveryScope(const DeliveryScope&) = delete;
    DeliveryScope& operator=(const DeliveryScope&) = delete;

private:
    FileEngineObject* engine_; ///< kept alive by the operation
};

void link_in_flight(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    engine->in_flight.push_front(*operation);
    ++engine->in_flight_count;
    operation->in_flight = true;
    Py_INCREF(operation);
}

/// The caller takes over the reference that the engine held.
void unlink_in_flight(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    engine->in_flight.remove(*operation);
    --engine->in_flight_count;
    operation->in_flight = false;
}

/// Whether it is a pipe, a terminal or a socket: a write to it may block for ever.
bool is_stream(int fd) noexcept {
    const int type = io::file_type(fd);
    return type >= 0 && !S_ISREG(type) && !S_ISBLK(type);
}

/// Schedules a call of `process` in the loop's next iteration.
void process_later(FileEngineObject* engine) noexcept {
    const Ref process(PyObject_GetAttrString(as_object(engine), "process"));
    if (!process || !Ref(PyObject_CallOneArg(engine->later, process.get()))) {
        PyErr_WriteUnraisable(as_object(engine));
    }
}

bool start_request(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    if (operation->call->ends_descriptor && is_in_use(engine, operation->fd)) {
        operation->close_deferred = true;
        ++engine->deferred_close_count;
        return true;
    }
    std::error_code refused;
    try {
        operation->call->prepare(operation);
        refused = engine->io->start(operation->request);
    } catch (const std::bad_alloc&) {
        refused = std::make_error_code(std::errc::not_enough_memory);
    }
    if (refused) {
        operation->error = refused.value();
        return false;
    }
    submit_prepared(engine);
    return true;
}

/// Steps the waiting task; on trio, reschedules it.
void wake(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    PyObject* self = as_object(operation);
    if (engine->penstock != nullptr && engine->penstock->closed) {
        release(operation->task);
        return;
    }
    if ((engine->closing || engine->steps_later) && engine->loop != nullptr) {
        // A task may be running, and a task must not be stepped from another.
        if (!step_later(engine->state, operation->task, self, engine->loop)) {
            PyErr_WriteUnraisable(self);
        }
        return;
    }
    if (step(engine->state, operation->task, self)) {
        return;
    }
    if (engine->penstock != nullptr) {
        report_raised(engine->penstock, "Exception after a file operation", nullptr, nullptr);
    } else if (engine->raised == nullptr) {
        engine->raised = take_exception().release();
    } else {
        PyErr_WriteUnraisable(self);
    }
}

/// Whether one of the operations, other than a close, uses a descriptor.
bool uses(const FileOperations& operations, int fd) noexcept {
    for (const auto* other = operations.front(); other != nullptr;
         other = FileOperations::after(*other)) {
        if ((other->fd == fd || other->other_fd == fd) && !other->call->ends_descriptor) {
            return true;
        }
    }
    return false;
}

/// Whether the engine's loop runs in this thread, so that operations can be started. Not on trio.
bool runs_here(const FileEngineObject* engine) noexcept {
    if (engine->loop == nullptr || engine->io == nullptr || engine->closing) {
        return false;
    }
    Ref exception = take_exception();
    const Ref running(PyObject_CallNoArgs(engine->state->get_running_loop));
    PyErr_Clear();
    if (exception) {
        raise_exception(std::move(exception));
    }
    return running.get() == engine->loop;
}

FileOperationObject* find_startable_close(const FileEngineObject* engine) noexcept {
    FileOperationObject* operation =
        engine->deferred_close_count > 0 ? engine->in_flight.front() : nullptr;
    while (operation != nullptr &&
           (!operation->close_deferred || is_in_use(engine, operation->fd))) {
        operation = FileOperations::after(*operation);
    }
    return operation;
}

} // namespace

void submit(FileOperationObject* operation) noexcept {
    link_in_flight(operation);
    operation->progress = FileOperationObject::Progress::waiting;
    if (!start_request(operation)) {
        unlink_in_flight(operation);
        operation->progress = FileOperationObject::Progress::complete;
        Py_DECREF(operation);
    }
}

void submit_prepared(FileEngineObject* engine) noexcept {
    // Only Penstock's loop flushes before it blocks.
    if (engine->penstock == nullptr && engine->gathering == 0 && engine->io != nullptr &&
        engine->io->flush()) {
        process_later(engine);
    }
}

void on_complete(io::FileOperation& request, std::int64_t answer) {
    FileOperationObject* operation = FileOperationObject::of(request);
    const FileCall* call = operation->call;
    if (answer >= 0) {
        operation->result = answer;
        operation->done += answer;
    } else {
        operation->error = static_cast<int>(-answer);
        operation->done += static_cast<std::int64_t>(request.transferred);
    }
    const Ref reference(as_object(operation));
    const DeliveryScope delivering(operation->engine);
    unlink_in_flight(operation);
    if (operation->detached) {
        if (operation->error == 0 && call->discard != nullptr) {
            call->discard(operation);
        }
        call_release_callback(operation);
        release_buffers(operation);
    } else {
        operation->progress = FileOperationObject::Progress::complete;
        wake(operation);
        call_release_callback(operation);
    }
    start_deferred_closes(operation->engine);
}

void request_cancel(FileOperationObject* operation) noexcept {
    if (!operation->call->ends_descriptor && operation->engine->io != nullptr) {
        operation->engine->io->cancel(operation->request);
    }
}

bool may_never_end(const FileOperationObject* operation) noexcept {
    const FileCall* call = operation->call;
    return call->may_never_end && (call != &write_call || is_stream(operation->fd));
}

void hold_descriptor(FileOperationObject* operation) noexcept {
    if (operation->fd >= 0 && !operation->call->ends_descriptor) {
        operation->engine->yielded.push_front(*operation);
        operation->holds_descriptor = true;
    }
}

bool stop_holding(FileOperationObject* operation) noexcept {
    const bool held = std::exchange(operation->holds_descriptor, false);
    if (held) {
        operation->engine->yielded.remove(*operation);
    }
    return held;
}

void start_deferred_closes_in_task(FileEngineObject* engine) noexcept {
    if (engine->deferred_close_count == 0 || engine->io == nullptr) {
        return;
    }
    Ref exception = take_exception();
    const bool before = std::exchange(engine->steps_later, true);
    start_deferred_closes(engine);
    engine->steps_later = before;
    if (exception) {
        raise_exception(std::move(exception));
    }
}

/// Searches again for each: starting a request may run Python code, which may change the list.
void start_deferred_closes(FileEngineObject* engine) noexcept {
    while (FileOperationObject* operation = find_startable_close(engine)) {
        operation->close_deferred = false;
        --engine->deferred_close_count;
        if (!start_request(operation)) {
            on_complete(operation->request, -operation->error);
        }
    }
}

bool is_in_use(const FileEngineObject* engine, int fd) noexcept {
    return uses(engine->in_flight, fd) || (!engine->closing && uses(engine->yielded, fd));
}

bool close_in_background(FileEngineObject* engine, int fd) noexcept {
    if (!is_in_use(engine, fd) && !(is_remote(fd) && runs_here(engine))) {
        ::close(fd);
        return true;
    }
    FileOperationObject* operation = make_file_operation(engine, close_call);
    if (operation == nullptr) {
        return false;
    }
    operation->fd = fd;
    operation->stage = AwaitStage::finished;
    operation->progress = FileOperationObject::Progress::ended;
    operation->detached = true;
    link_in_flight(operation);
    if (!start_request(operation)) { // of a descriptor in use it is deferred
        ::close(fd);
        on_complete(operation->request, -operation->error);
    }
    Py_DECREF(operation);
    return true;
}

} // namespace penstock::python
