// line_rows(): columns as the line protocol of InfluxDB.

#include "encoded_rows.hpp"
#include "module.hpp"
#include "value_text.hpp"

#include <cmath>
#include <new>

namespace penstock::python::record {

namespace {

/// The first column is what stands before the fields, the last one the time stamp.
struct Lines {
    const Column* head;
    const Column* fields;
    std::size_t count; ///< of fields
    const Column* stamp;
    std::vector<std::string_view> labels; ///< `Mass_Flow=`, one for each field
};

std::size_t longest_of(Kind kind) noexcept {
    switch (kind) {
    case Kind::number:
        return longest_number;
    case Kind::whole:
    case Kind::stamp:
        return longest_whole + 1; // the letter i
    case Kind::truth:
    case Kind::text: // counted by Columns
        return 1;
    }
    return 0;
}

/// Writes one value; null where the row has none. The protocol has neither null nor NaN nor
/// infinities: such a field is left out.
char* put_field(char* out, const Column& column, std::string_view label, std::size_t row) noexcept {
    if (column.kind == Kind::text) {
        const std::string_view text = column.text(row);
        return text.empty() ? nullptr : put_text(put_text(out, label), text);
    }
    if (!column.has(row)) {
        return nullptr;
    }
    if (column.kind == Kind::number) {
        const auto value = column.at<double>(row);
        return std::isfinite(value) ? put_number(put_text(out, label), value, false) : nullptr;
    }
    out = put_text(out, label);
    if (column.kind == Kind::truth) {
        *out++ = column.at<std::int8_t>(row) != 0 ? 't' : 'f';
        return out;
    }
    out = put_whole(out, column.at<std::int64_t>(row));
    *out++ = 'i';
    return out;
}

char* put_line(char* const begin, const Lines& lines, std::size_t row) noexcept {
    char* out = put_text(begin, lines.head->text(row));
    char separator = ' ';
    for (std::size_t place = 0; place < lines.count; ++place) {
        // Where the row lacks the field, the next one overwrites the separator.
        *out = separator;
        char* const end = put_field(out + 1, lines.fields[place], lines.labels[place], row);
        if (end != nullptr) {
            out = end;
            separator = ',';
        }
    }
    if (separator == ' ') {
        return begin; // a line without a field is not valid
    }
    *out++ = ' ';
    out = put_whole(out, lines.stamp->at<std::int64_t>(row));
    *out++ = '\n';
    return out;
}

bool read_labels(PyObject* labels, Lines& lines) {
    if (static_cast<std::size_t>(PyTuple_GET_SIZE(labels)) != lines.count) {
        PyErr_Format(PyExc_ValueError, "there are %zu fields and %zd labels", lines.count,
                     PyTuple_GET_SIZE(labels));
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(labels); ++i) {
        char* text = nullptr;
        Py_ssize_t size = 0;
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(labels, i), &text, &size) != 0) {
            return false;
        }
        lines.labels.emplace_back(text, static_cast<std::size_t>(size));
    }
    return true;
}

} // namespace

PyObject* line_rows(PyObject*, PyObject* arguments) noexcept {
    PyObject* given = nullptr;
    PyObject* labels = nullptr;
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    if (PyArg_ParseTuple(arguments, "OOnn", &given, &labels, &start, &stop) == 0) {
        return nullptr;
    }
    try {
        Columns columns;
        const Ref held(PySequence_Tuple(labels));
        if (!held || !columns.read(given, start, stop)) {
            return nullptr;
        }
        const std::vector<Column>& all = columns.all();
        if (all.size() < 2 || all.front().kind != Kind::text ||
            (all.back().kind != Kind::stamp && all.back().kind != Kind::whole)) {
            PyErr_SetString(PyExc_ValueError, "the first column is text, and the last one stamps");
            return nullptr;
        }
        Lines lines{.head = all.data(),
                    .fields = all.data() + 1,
                    .count = all.size() - 2,
                    .stamp = &all.back(),
                    .labels = {}};
        if (!read_labels(held.get(), lines)) {
            return nullptr;
        }
        std::size_t row_size = longest_whole + 2;
        for (std::size_t place = 0; place < lines.count; ++place) {
            row_size += lines.labels[place].size() + longest_of(lines.fields[place].kind) + 1;
        }
        const auto first = static_cast<std::size_t>(start);
        const auto last = static_cast<std::size_t>(stop);
        // One byte more: the separator before a field that is not there.
        const std::size_t bound = (last - first) * row_size + columns.text_size() + 1;
        return encoded_rows(bound, [&](char* out) noexcept {
            for (std::size_t row = first; row < last; ++row) {
                out = put_line(out, lines, row);
            }
            return out;
        });
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

} // namespace penstock::python::record
