#include "files/running_engine.hpp"

namespace penstock::python {

namespace {

/// The engine of the loop that is known to run in this thread. Null: ask asyncio, which makes a
/// system call for each answer, up to CPython 3.13.
FileEngineObject* known_engine(const ModuleState* state) noexcept {
    const LoopObject* loop = state->file_loop;
    if (loop == nullptr || !loop->iterating || loop->owner_thread != PyThread_get_thread_ident()) {
        return nullptr;
    }
    FileEngineObject* engine = loop->file_engine;
    return engine != nullptr && engine->io != nullptr && !engine->io->in_child() ? engine : nullptr;
}

} // namespace

Ref running_engine(ModuleState* state) noexcept {
    // Trio may run beside asyncio in one thread: penstock.files._backend knows which one asks.
    if (const Ref trio{PyImport_GetModule(state->name_trio)}) {
        return Ref();
    }
    if (FileEngineObject* engine = known_engine(state)) {
        return Ref::borrow(as_object(engine));
    }
    const Ref loop(PyObject_CallNoArgs(state->get_running_loop));
    if (!loop) {
        PyErr_Clear();
        return Ref();
    }
    if (PyObject_TypeCheck(loop.get(), state->loop_type) != 0) {
        state->file_loop = reinterpret_cast<LoopObject*>(loop.get());
        return Ref::borrow(as_object(file_engine_of(state->file_loop)));
    }
    const Ref attached(PyObject_GetAttr(loop.get(), state->name_penstock_files));
    Ref engine(attached ? PyObject_GetAttr(attached.get(), state->name_engine) : nullptr);
    if (!engine) {
        PyErr_Clear();
        return Ref();
    }
    const bool usable = Py_IS_TYPE(engine.get(), state->file_engine_type) &&
                        reinterpret_cast<FileEngineObject*>(engine.get())->io != nullptr;
    return usable ? std::move(engine) : Ref();
}

} // namespace penstock::python
