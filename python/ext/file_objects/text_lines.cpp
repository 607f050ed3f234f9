// Lines of text and of bytes that are in memory.

#include "file_objects/text_lines.hpp"

#include "file_objects/file_types.hpp"

#include <cstring>

namespace penstock::python {

namespace {

/// The index of a character, or -1.
Py_ssize_t find(PyObject* text, Py_UCS4 character, Py_ssize_t from, Py_ssize_t to) noexcept {
    if (from >= to) {
        return -1;
    }
    if (PyUnicode_KIND(text) == PyUnicode_1BYTE_KIND) {
        const auto* data = static_cast<const char*>(PyUnicode_DATA(text));
        const void* found = std::memchr(data + from, static_cast<int>(character),
                                        static_cast<std::size_t>(to - from));
        return found != nullptr ? static_cast<const char*>(found) - data : -1;
    }
    return PyUnicode_FindChar(text, character, from, to, 1);
}

Py_ssize_t after_return_feed(PyObject* text, Py_ssize_t from, Py_ssize_t size) noexcept {
    for (;;) {
        const Py_ssize_t found = find(text, '\r', from, size - 1);
        if (found < 0) {
            return 0;
        }
        if (PyUnicode_READ_CHAR(text, found + 1) == '\n') {
            return found + 2;
        }
        from = found + 1;
    }
}

Py_ssize_t after_any(PyObject* text, Py_ssize_t from, Py_ssize_t size) noexcept {
    const Py_ssize_t feed = find(text, '\n', from, size);
    const Py_ssize_t back = find(text, '\r', from, feed < 0 ? size : feed);
    if (back < 0) {
        return feed + 1;
    }
    return back + (feed == back + 1 ? 2 : 1);
}

// ---- many lines at once
// ---------------------------------------------------------------------------

struct Split {
    PyObject* content;
    PyObject* lines; ///< a list
    Py_ssize_t from;
    Py_ssize_t until; ///< no line is begun from here on
};

/// Appends a line, which is taken over. False with an exception set.
bool append(PyObject* lines, PyObject* line) noexcept {
    const Ref owned(line);
    return line != nullptr && PyList_Append(lines, line) == 0;
}

bool split_bytes(Split& split) noexcept {
    const char* data = PyBytes_AS_STRING(split.content);
    const Py_ssize_t size = PyBytes_GET_SIZE(split.content);
    while (split.from < split.until) {
        const void* found =
            std::memchr(data + split.from, '\n', static_cast<std::size_t>(size - split.from));
        const Py_ssize_t end = found != nullptr ? static_cast<const char*>(found) - data + 1 : size;
        if (!append(split.lines, PyBytes_FromStringAndSize(data + split.from, end - split.from))) {
            return false;
        }
        split.from = end;
    }
    return true;
}

bool split_text(Split& split, LineEnd kind) noexcept {
    const Py_ssize_t size = PyUnicode_GET_LENGTH(split.content);
    while (split.from < split.until) {
        Py_ssize_t end = line_end_after(split.content, split.from, kind);
        end = end != 0 ? end : size;
        if (!append(split.lines, PyUnicode_Substring(split.content, split.from, end))) {
            return false;
        }
        split.from = end;
    }
    return true;
}

/// split_lines(content, begin, size, lines, line_end=0) -> int
PyObject* split_lines(PyObject* /*module*/, PyObject* arguments) {
    PyObject* content = nullptr;
    PyObject* lines = nullptr;
    Py_ssize_t begin = 0;
    Py_ssize_t size = 0;
    int line_end = 0;
    if (PyArg_ParseTuple(arguments, "OnnO!|i:split_lines", &content, &begin, &size, &PyList_Type,
                         &lines, &line_end) == 0) {
        return nullptr;
    }
    const bool text = PyUnicode_Check(content);
    if (!text && !PyBytes_Check(content)) {
        return PyErr_Format(PyExc_TypeError, "split_lines() takes bytes or str, not %s",
                            Py_TYPE(content)->tp_name);
    }
    const Py_ssize_t length = text ? PyUnicode_GET_LENGTH(content) : PyBytes_GET_SIZE(content);
    if (begin < 0 || size < 0 || begin > length) {
        return PyErr_Format(PyExc_ValueError, "no part of %zd begins at %zd with %zd", length,
                            begin, size);
    }
    Split split{content, lines, begin, size < length - begin ? begin + size : length};
    const bool done = text ? split_text(split, static_cast<LineEnd>(line_end)) : split_bytes(split);
    return done ? PyLong_FromSsize_t(split.from) : nullptr;
}

/// end_of_line(text, begin, line_end) -> int
PyObject* end_of_line(PyObject* /*module*/, PyObject* const* values, Py_ssize_t count) {
    if (count != 3 || !PyUnicode_Check(values[0])) {
        PyErr_SetString(PyExc_TypeError, "end_of_line() takes a text and two numbers");
        return nullptr;
    }
    const Py_ssize_t begin = PyLong_AsSsize_t(values[1]);
    const long line_end = begin >= 0 ? PyLong_AsLong(values[2]) : -1;
    if (begin < 0 || line_end < 0) {
        if (PyErr_Occurred() == nullptr) {
            PyErr_SetString(PyExc_ValueError, "end_of_line() takes no negative numbers");
        }
        return nullptr;
    }
    return PyLong_FromSsize_t(line_end_after(values[0], begin, static_cast<LineEnd>(line_end)));
}

PyMethodDef functions[] = {
    {"end_of_line", as_function(&end_of_line), METH_FASTCALL,
     "end_of_line(text, begin, line_end): where the first line from `begin` on ends; 0 if its end "
     "is not there."},
    {"split_lines", &split_lines, METH_VARARGS,
     "split_lines(content, begin, size, lines, line_end=0): append the lines that begin within "
     "`size` from `begin` on; returns where the next one begins."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

Py_ssize_t line_end_after(PyObject* text, Py_ssize_t from, LineEnd kind) noexcept {
    const Py_ssize_t size = PyUnicode_GET_LENGTH(text);
    switch (kind) {
    case LineEnd::feed:
        return find(text, '\n', from, size) + 1;
    case LineEnd::carriage:
        return find(text, '\r', from, size) + 1;
    case LineEnd::return_feed:
        return after_return_feed(text, from, size);
    case LineEnd::universal:
        return after_any(text, from, size);
    }
    return 0;
}

bool add_line_lists(PyObject* module) {
    return PyModule_AddFunctions(module, functions) == 0;
}

} // namespace penstock::python
