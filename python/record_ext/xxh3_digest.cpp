// xxh3_128: the digest as a Python object like those of hashlib.

#include "module.hpp"
#include "shared/buffer_view.hpp"
#include "shared/py_ref.hpp"
#include "xxh3.hpp"

#include <new>

namespace penstock::python::record {

namespace {

struct Digest {
    PyObject object;
    Xxh3 value;
};

Digest& digest_of(PyObject* self) noexcept {
    return *reinterpret_cast<Digest*>(self);
}

bool add(PyObject* self, PyObject* data) noexcept {
    BufferView view;
    if (!view.acquire(data, PyBUF_SIMPLE)) {
        return false;
    }
    // With the GIL: a megabyte takes less time than another thread takes to notice.
    digest_of(self).value.add(view.data(), view.bytes().size());
    return true;
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* named) noexcept {
    static const char* const names[] = {"", "portably", nullptr};
    PyObject* data = nullptr;
    int portably = 0;
    if (PyArg_ParseTupleAndKeywords(arguments, named, "|O$p:xxh3_128", const_cast<char**>(names),
                                    &data, &portably) == 0) {
        return nullptr;
    }
    Ref self(type->tp_alloc(type, 0));
    if (!self) {
        return nullptr;
    }
    new (&digest_of(self.get()).value) Xxh3(portably != 0);
    if (data != nullptr && !add(self.get(), data)) {
        return nullptr;
    }
    return self.release();
}

void destroy(PyObject* self) noexcept {
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* update(PyObject* self, PyObject* data) noexcept {
    if (!add(self, data)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* digest(PyObject* self, PyObject*) noexcept {
    const auto result = digest_of(self).value.digest();
    return PyBytes_FromStringAndSize(result.data(), static_cast<Py_ssize_t>(result.size()));
}

PyObject* copy(PyObject* self, PyObject*) noexcept {
    PyTypeObject* type = Py_TYPE(self);
    PyObject* other = type->tp_alloc(type, 0);
    if (other != nullptr) {
        new (&digest_of(other).value) Xxh3(digest_of(self).value);
    }
    return other;
}

PyMethodDef methods[] = {
    {"update", &update, METH_O, "update(data): add bytes."},
    {"digest", &digest, METH_NOARGS, "digest(): the 16 bytes of the digest."},
    {"copy", &copy, METH_NOARGS, "copy(): another one in the same state."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(&create)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("xxh3_128(data=b'', *, portably=False): XXH3 with 128 bits, of "
                                  "pieces; portably without wide registers, for a test.")},
    {0, nullptr},
};

PyType_Spec spec = {
    .name = "penstock._record.xxh3_128",
    .basicsize = sizeof(Digest),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

} // namespace

bool add_xxh3_digest(PyObject* module) noexcept {
    const Ref type(PyType_FromModuleAndSpec(module, &spec, nullptr));
    return type && PyModule_AddObjectRef(module, "xxh3_128", type.get()) == 0;
}

} // namespace penstock::python::record
