// attribute_lists(), value_lists(), float_cells() and utc_stamps(): objects to columns. Each does
// for a whole list what Python code would do for each object.

#include "module.hpp"
#include "shared/py_ref.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace penstock::python::record {

namespace {

/// `count` lists of `size` elements that are to be set.
bool make_lists(std::vector<Ref>& lists, Py_ssize_t count, Py_ssize_t size) {
    lists.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
        Ref& list = lists.emplace_back(PyList_New(size));
        if (!list) {
            return false;
        }
        // An unset list is not for others: the garbage collector would show it to them.
        PyObject_GC_UnTrack(list.get());
    }
    return true;
}

PyObject* tuple_of(std::vector<Ref>& lists) noexcept {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(lists.size()));
    if (tuple == nullptr) {
        return nullptr;
    }
    for (std::size_t i = 0; i < lists.size(); ++i) {
        PyObject_GC_Track(lists[i].get());
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), lists[i].release());
    }
    return tuple;
}

/// Nanoseconds since 1970 of a datetime in UTC.
std::int64_t stamp_of(PyObject* moment) noexcept {
    using namespace std::chrono;
    const sys_days day{year{PyDateTime_GET_YEAR(moment)} /
                       month{static_cast<unsigned>(PyDateTime_GET_MONTH(moment))} /
                       std::chrono::day{static_cast<unsigned>(PyDateTime_GET_DAY(moment))}};
    const auto second = day.time_since_epoch() + hours{PyDateTime_DATE_GET_HOUR(moment)} +
                        minutes{PyDateTime_DATE_GET_MINUTE(moment)} +
                        seconds{PyDateTime_DATE_GET_SECOND(moment)};
    return second.count() * 1'000'000'000 +
           std::int64_t{PyDateTime_DATE_GET_MICROSECOND(moment)} * 1000;
}

/// Whether `stamp_of` is right for it: a datetime itself, in UTC, that 64 bits of nanoseconds hold.
bool is_plain(const ModuleState* state, PyObject* moment) noexcept {
    if (Py_TYPE(moment) != state->datetime->DateTimeType) {
        return false;
    }
    const int year = PyDateTime_GET_YEAR(moment);
    return PyDateTime_DATE_GET_TZINFO(moment) == state->datetime->TimeZone_UTC && year > 1677 &&
           year < 2262;
}

} // namespace

PyObject* attribute_lists(PyObject*, PyObject* arguments) noexcept {
    PyObject* given = nullptr;
    PyObject* names = nullptr;
    if (PyArg_ParseTuple(arguments, "OO!", &given, &PyTuple_Type, &names) == 0) {
        return nullptr;
    }
    try {
        const Ref objects(PySequence_Tuple(given));
        std::vector<Ref> lists;
        if (!objects ||
            !make_lists(lists, PyTuple_GET_SIZE(names), PyTuple_GET_SIZE(objects.get()))) {
            return nullptr;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects.get()); ++i) {
            PyObject* object = PyTuple_GET_ITEM(objects.get(), i);
            for (std::size_t n = 0; n < lists.size(); ++n) {
                PyObject* value =
                    PyObject_GetAttr(object, PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(n)));
                if (value == nullptr) {
                    return nullptr;
                }
                PyList_SET_ITEM(lists[n].get(), i, value);
            }
        }
        return tuple_of(lists);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

PyObject* value_lists(PyObject*, PyObject* arguments) noexcept {
    PyObject* given = nullptr;
    PyObject* names = nullptr;
    if (PyArg_ParseTuple(arguments, "OO!", &given, &PyTuple_Type, &names) == 0) {
        return nullptr;
    }
    try {
        const Ref mappings(PySequence_Tuple(given));
        std::vector<Ref> lists;
        if (!mappings ||
            !make_lists(lists, PyTuple_GET_SIZE(names), PyTuple_GET_SIZE(mappings.get()))) {
            return nullptr;
        }
        bool others = false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mappings.get()); ++i) {
            // A dictionary of its own where it is another mapping.
            PyObject* mapping = PyTuple_GET_ITEM(mappings.get(), i);
            Ref values(PyDict_CheckExact(mapping) ? Py_NewRef(mapping) : PyDict_New());
            if (!values || (values.get() != mapping && PyDict_Update(values.get(), mapping) != 0)) {
                return nullptr;
            }
            Py_ssize_t found = 0;
            for (std::size_t n = 0; n < lists.size(); ++n) {
                PyObject* value = PyDict_GetItemWithError(
                    values.get(), PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(n)));
                if (value == nullptr && PyErr_Occurred() != nullptr) {
                    return nullptr;
                }
                found += value != nullptr ? 1 : 0;
                PyList_SET_ITEM(lists[n].get(), i, Py_NewRef(value != nullptr ? value : Py_None));
            }
            others = others || found < PyDict_GET_SIZE(values.get());
        }
        const Ref cells(tuple_of(lists));
        return cells ? PyTuple_Pack(2, cells.get(), others ? Py_True : Py_False) : nullptr;
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

PyObject* float_cells(PyObject*, PyObject* cells) noexcept {
    if (!PyList_CheckExact(cells)) {
        PyErr_SetString(PyExc_TypeError, "the cells are a list");
        return nullptr;
    }
    // No Python code runs below, so the list stays as it is.
    const Py_ssize_t count = PyList_GET_SIZE(cells);
    const Ref numbers(PyBytes_FromStringAndSize(nullptr, count * Py_ssize_t{sizeof(double)}));
    const Ref valid(PyBytes_FromStringAndSize(nullptr, count));
    if (!numbers || !valid) {
        return nullptr;
    }
    char* const data = PyBytes_AS_STRING(numbers.get());
    char* const flags = PyBytes_AS_STRING(valid.get());
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* cell = PyList_GET_ITEM(cells, i);
        double value = 0;
        if (PyFloat_CheckExact(cell)) {
            value = PyFloat_AS_DOUBLE(cell);
        } else if (cell != Py_None) {
            Py_RETURN_NONE;
        }
        flags[i] = cell != Py_None ? 1 : 0;
        std::memcpy(data + i * Py_ssize_t{sizeof(double)}, &value, sizeof value);
    }
    return PyTuple_Pack(2, numbers.get(), valid.get());
}

PyObject* utc_stamps(PyObject* module, PyObject* arguments) noexcept {
    PyObject* given = nullptr;
    PyObject* otherwise = nullptr;
    if (PyArg_ParseTuple(arguments, "OO", &given, &otherwise) == 0) {
        return nullptr;
    }
    const ModuleState* state = state_of_module(module);
    const Ref moments(PySequence_Tuple(given));
    if (!moments) {
        return nullptr;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(moments.get());
    Ref stamps(PyBytes_FromStringAndSize(nullptr, count * Py_ssize_t{sizeof(std::int64_t)}));
    if (!stamps) {
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* moment = PyTuple_GET_ITEM(moments.get(), i);
        std::int64_t stamp = 0;
        if (is_plain(state, moment)) {
            stamp = stamp_of(moment);
        } else {
            const Ref number(PyObject_CallOneArg(otherwise, moment));
            if (!number) {
                return nullptr;
            }
            stamp = PyLong_AsLongLong(number.get());
            if (stamp == -1 && PyErr_Occurred() != nullptr) {
                return nullptr;
            }
        }
        std::memcpy(PyBytes_AS_STRING(stamps.get()) + i * Py_ssize_t{sizeof stamp}, &stamp,
                    sizeof stamp);
    }
    return stamps.release();
}

} // namespace penstock::python::record
