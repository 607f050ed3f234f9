// The engine's side of file operations.

#include "file_flight.hpp"

#include "file_calls.hpp"

#include <new>

#include <sys/stat.h>
#include <unistd.h>

namespace penstock::python {

namespace {

/// While the engine's own call into here is on the stack, which the engine must outlive.
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
    operation->previous = nullptr;
    operation->next = engine->in_flight;
    if (operation->next != nullptr) {
        operation->next->previous = operation;
    }
    engine->in_flight = operation;
    ++engine->in_flight_count;
    operation->in_flight = true;
    Py_INCREF(operation);
}

/// The caller takes over the engine's reference.
void unlink_in_flight(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    if (operation->previous != nullptr) {
        operation->previous->next = operation->next;
    } else {
        engine->in_flight = operation->next;
    }
    if (operation->next != nullptr) {
        operation->next->previous = operation->previous;
    }
    operation->previous = nullptr;
    operation->next = nullptr;
    --engine->in_flight_count;
    operation->in_flight = false;
}

/// What has no end of its own: a pipe, a terminal, a socket.
bool is_stream(int fd) noexcept {
    struct stat status = {};
    return ::fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode);
}

/// Has the loop call `process` in its next iteration.
void process_later(FileEngineObject* engine) noexcept {
    const Ref process(PyObject_GetAttrString(as_object(engine), "process"));
    if (!process || !Ref(PyObject_CallOneArg(engine->later, process.get()))) {
        PyErr_WriteUnraisable(as_object(engine));
    }
}

bool ask_engine(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    if (operation->call->ends_descriptor && is_in_use(engine, operation->fd)) {
        operation->held = true;
        ++engine->held_count;
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
    if (engine->penstock == nullptr && engine->io->flush()) {
        process_later(engine); // other loops do not flush before they block
    }
    return true;
}

/// Steps the waiting task, or lets trio do so.
void wake(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    PyObject* self = as_object(operation);
    if (engine->penstock != nullptr && engine->penstock->closed) {
        release(operation->task);
        return;
    }
    if (engine->closing && engine->loop != nullptr) {
        // A task may be running, which no other may be stepped from.
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

FileOperationObject* find_releasable(const FileEngineObject* engine) noexcept {
    FileOperationObject* operation = engine->held_count > 0 ? engine->in_flight : nullptr;
    while (operation != nullptr && (!operation->held || is_in_use(engine, operation->fd))) {
        operation = operation->next;
    }
    return operation;
}

/// Starts the closings that nothing stands in the way of any more. Looks for each anew: asking the engine may
/// run Python code, after which the list may be another one.
void release_held(FileEngineObject* engine) noexcept {
    while (FileOperationObject* operation = find_releasable(engine)) {
        operation->held = false;
        --engine->held_count;
        if (!ask_engine(operation)) {
            on_complete(operation->request, -operation->error);
        }
    }
}

} // namespace

void hand_to_engine(FileOperationObject* operation) noexcept {
    link_in_flight(operation);
    operation->stage = FileOperationObject::Stage::waiting;
    if (!ask_engine(operation)) {
        unlink_in_flight(operation);
        operation->stage = FileOperationObject::Stage::complete;
        Py_DECREF(operation);
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
    }
    const Ref reference(as_object(operation));
    const DeliveryScope delivering(operation->engine);
    unlink_in_flight(operation);
    if (operation->abandoned) {
        if (operation->error == 0 && call->discard != nullptr) {
            call->discard(operation);
        }
        settle(operation);
        release_buffers(operation);
    } else {
        operation->stage = FileOperationObject::Stage::complete;
        wake(operation);
        settle(operation);
    }
    release_held(operation->engine);
}

void cut_short(FileOperationObject* operation) noexcept {
    if (!operation->call->ends_descriptor && operation->engine->io != nullptr) {
        operation->engine->io->cancel(operation->request);
    }
}

bool may_never_end(const FileOperationObject* operation) noexcept {
    const FileCall* call = operation->call;
    return call->may_never_end && (call != &write_call || is_stream(operation->fd));
}

bool is_in_use(const FileEngineObject* engine, int fd) noexcept {
    for (const auto* other = engine->in_flight; other != nullptr; other = other->next) {
        if ((other->fd == fd || other->other_fd == fd) && !other->call->ends_descriptor) {
            return true;
        }
    }
    return false;
}

bool close_unwanted(FileEngineObject* engine, int fd) noexcept {
    if (!is_in_use(engine, fd)) {
        ::close(fd);
        return true;
    }
    FileOperationObject* operation = make_file_operation(engine, close_call);
    if (operation == nullptr) {
        return false;
    }
    operation->fd = fd;
    operation->stage = FileOperationObject::Stage::finished;
    operation->abandoned = true;
    link_in_flight(operation);
    ask_engine(operation); // it is held
    Py_DECREF(operation);
    return true;
}

} // namespace penstock::python
