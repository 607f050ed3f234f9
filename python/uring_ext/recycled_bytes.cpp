#include "recycled_bytes.hpp"

#include <new>

namespace penstock::python::uring {

namespace {

void reset_hash(PyObject* bytes) noexcept {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    reinterpret_cast<PyBytesObject*>(bytes)->ob_shash = -1;
#pragma GCC diagnostic pop
}

} // namespace

Ref RecycledBytes::take(Py_ssize_t size) noexcept {
    if (size >= least && size <= most && !kept_.empty()) {
        Ref oldest(kept_.front());
        kept_.pop_front();
        memory_ -= Py_SIZE(oldest.get());
        if (Py_SIZE(oldest.get()) == size && Py_REFCNT(oldest.get()) == 1) {
            reset_hash(oldest.get());
            return oldest;
        }
        // The program has kept it, or now reads another size.
    }
    return Ref(PyBytes_FromStringAndSize(nullptr, size));
}

bool RecycledBytes::fit(PyObject*& bytes, Py_ssize_t size) noexcept {
    if (size == Py_SIZE(bytes)) {
        remember(bytes);
        return true;
    }
    // A copy: where an object cannot shrink in place, _PyBytes_Resize frees it on failure, and the
    // data is lost.
    PyObject* cut = PyBytes_FromStringAndSize(PyBytes_AS_STRING(bytes), size);
    if (cut == nullptr) {
        return false;
    }
    const Ref whole(std::exchange(bytes, cut));
    remember(whole.get());
    return true;
}

void RecycledBytes::remember(PyObject* bytes) noexcept {
    const Py_ssize_t size = Py_SIZE(bytes);
    if (size < least || size > most || memory_ + size > most_memory) {
        return;
    }
    try {
        kept_.push_back(bytes);
    } catch (const std::bad_alloc&) {
        return;
    }
    Py_INCREF(bytes);
    memory_ += size;
}

void RecycledBytes::clear() noexcept {
    memory_ = 0;
    for (; !kept_.empty(); kept_.pop_front()) {
        Py_DECREF(kept_.front());
    }
}

} // namespace penstock::python::uring
