#include "columns.hpp"

namespace penstock::python::record {

namespace {

/// The size of a value; 0 for an unknown kind.
std::size_t width_of(Kind kind) noexcept {
    switch (kind) {
    case Kind::number:
    case Kind::whole:
    case Kind::stamp:
        return 8;
    case Kind::truth:
        return 1;
    case Kind::text:
        return 4;
    }
    return 0;
}

} // namespace

bool Columns::read(PyObject* sequence, Py_ssize_t start, Py_ssize_t stop) {
    if (start < 0 || stop < start) {
        PyErr_Format(PyExc_ValueError, "there are no rows %zd to %zd", start, stop);
        return false;
    }
    // A tuple of its own: code that runs meanwhile may change a list.
    Ref given(PySequence_Tuple(sequence));
    if (!given) {
        return false;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(given.get());
    columns_.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (!read_one(PyTuple_GET_ITEM(given.get(), i), static_cast<std::size_t>(start),
                      static_cast<std::size_t>(stop))) {
            return false;
        }
    }
    return true;
}

bool Columns::read_one(PyObject* tuple, std::size_t start, std::size_t stop) {
    int letter = 0;
    PyObject* data = nullptr;
    PyObject* valid = nullptr;
    PyObject* texts = nullptr;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a column is a tuple (kind, data, valid, texts)");
        return false;
    }
    if (PyArg_ParseTuple(tuple, "COOO", &letter, &data, &valid, &texts) == 0) {
        return false;
    }
    Column column{
        .kind = static_cast<Kind>(letter), .data = nullptr, .valid = nullptr, .texts = {}};
    const std::size_t width = width_of(column.kind);
    if (width == 0) {
        PyErr_Format(PyExc_ValueError, "there is no column of kind %c", letter);
        return false;
    }
    BufferView& values = buffers_.emplace_back();
    if (!values.acquire(data, PyBUF_SIMPLE)) {
        return false;
    }
    if (values.bytes().size() / width < stop) {
        PyErr_Format(PyExc_ValueError, "a column of kind %c is shorter than %zu rows", letter,
                     stop);
        return false;
    }
    column.data = values.data();
    if (valid != Py_None) {
        BufferView& flags = buffers_.emplace_back();
        if (!flags.acquire(valid, PyBUF_SIMPLE)) {
            return false;
        }
        if (flags.bytes().size() < stop) {
            PyErr_Format(PyExc_ValueError, "the validity of a column is shorter than %zu rows",
                         stop);
            return false;
        }
        column.valid = flags.data();
    }
    if (column.kind == Kind::text && !read_texts(texts, column, start, stop)) {
        return false;
    }
    columns_.push_back(std::move(column));
    return true;
}

bool Columns::read_texts(PyObject* texts, Column& column, std::size_t start, std::size_t stop) {
    Ref table(PySequence_Tuple(texts));
    if (!table) {
        return false;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(table.get());
    column.texts.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* text = PyTuple_GET_ITEM(table.get(), i);
        if (!PyBytes_Check(text)) {
            PyErr_SetString(PyExc_TypeError, "the texts of a column are bytes");
            return false;
        }
        column.texts.emplace_back(PyBytes_AS_STRING(text),
                                  static_cast<std::size_t>(PyBytes_GET_SIZE(text)));
    }
    held_.push_back(std::move(table));
    for (std::size_t row = start; row < stop; ++row) {
        const auto code = column.at<std::int32_t>(row);
        if (code >= count || code < -1) {
            PyErr_Format(PyExc_ValueError, "a column has no text %d", static_cast<int>(code));
            return false;
        }
        if (code >= 0) {
            text_size_ += column.texts[static_cast<std::size_t>(code)].size();
        }
    }
    return true;
}

} // namespace penstock::python::record
