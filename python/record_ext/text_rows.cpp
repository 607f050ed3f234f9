// csv_rows() and json_rows(): columns as lines of text.

#include "encoded_rows.hpp"
#include "module.hpp"
#include "value_text.hpp"

#include <cmath>
#include <new>

namespace penstock::python::record {

namespace {

/// RFC 4180: commas between values, CRLF behind a row, nothing for null.
class Csv {
public:
    explicit Csv(const Columns& columns) noexcept : columns_(columns.all()) {}

    [[nodiscard]] std::size_t overhead() const noexcept { return columns_.size() + 2; }

    char* put_before(char* out, std::size_t place) const noexcept {
        if (place > 0) {
            *out++ = ',';
        }
        return out;
    }
    static char* put_null(char* out) noexcept { return out; }
    static char* put_float(char* out, double value) noexcept {
        return put_number(out, value, false);
    }
    static char* put_stamp(char* out, StampText& text, std::int64_t stamp) noexcept {
        return text.put(out, stamp);
    }
    static char* put_end(char* out) noexcept { return put_text(out, "\r\n"); }

private:
    const std::vector<Column>& columns_;
};

/// An object a line. A label is what stands before a value: `{"device": `.
class Json {
public:
    explicit Json(std::vector<std::string_view> labels) : labels_(std::move(labels)) {}

    [[nodiscard]] std::size_t overhead() const noexcept {
        std::size_t size = 2;
        for (const std::string_view label : labels_) {
            size += label.size() + 4; // for "null", and the quotes of time stamps
        }
        return size;
    }

    char* put_before(char* out, std::size_t place) const noexcept {
        return put_text(out, labels_[place]);
    }
    static char* put_null(char* out) noexcept { return put_text(out, "null"); }
    static char* put_float(char* out, double value) noexcept {
        // JSON has neither NaN nor infinities (RFC 8259, section 6).
        return std::isfinite(value) ? put_number(out, value, true) : put_null(out);
    }
    static char* put_stamp(char* out, StampText& text, std::int64_t stamp) noexcept {
        *out++ = '"';
        out = text.put(out, stamp);
        *out++ = '"';
        return out;
    }
    static char* put_end(char* out) noexcept { return put_text(out, "}\n"); }

private:
    std::vector<std::string_view> labels_;
};

std::size_t longest_of(Kind kind) noexcept {
    switch (kind) {
    case Kind::number:
        return longest_number;
    case Kind::whole:
        return longest_whole;
    case Kind::truth:
        return 5;
    case Kind::stamp:
        return longest_stamp;
    case Kind::text:
        return 0; // counted by Columns
    }
    return 0;
}

template <typename Format>
char* put_value(char* out, const Format& format, const Column& column, StampText& stamps,
                std::size_t row) noexcept {
    if (column.kind == Kind::text) {
        const std::string_view text = column.text(row);
        return text.data() == nullptr ? format.put_null(out) : put_text(out, text);
    }
    if (!column.has(row)) {
        return format.put_null(out);
    }
    switch (column.kind) {
    case Kind::number:
        return format.put_float(out, column.at<double>(row));
    case Kind::whole:
        return put_whole(out, column.at<std::int64_t>(row));
    case Kind::truth:
        return put_text(out, column.at<std::int8_t>(row) != 0 ? "true" : "false");
    case Kind::stamp:
        return format.put_stamp(out, stamps, column.at<std::int64_t>(row));
    case Kind::text:
        break;
    }
    return out;
}

template <typename Format>
PyObject* lines(const Columns& columns, const Format& format, std::size_t start, std::size_t stop) {
    std::size_t row_size = format.overhead();
    for (const Column& column : columns.all()) {
        row_size += longest_of(column.kind);
    }
    std::vector<StampText> stamps(columns.all().size());
    const std::size_t bound = (stop - start) * row_size + columns.text_size();
    return encoded_rows(bound, [&](char* out) noexcept {
        for (std::size_t row = start; row < stop; ++row) {
            for (std::size_t place = 0; place < columns.all().size(); ++place) {
                out = format.put_before(out, place);
                out = put_value(out, format, columns.all()[place], stamps[place], row);
            }
            out = format.put_end(out);
        }
        return out;
    });
}

} // namespace

PyObject* csv_rows(PyObject*, PyObject* arguments) noexcept {
    return rows_of(arguments, [](const Columns& columns, std::size_t start, std::size_t stop) {
        return lines(columns, Csv(columns), start, stop);
    });
}

PyObject* json_rows(PyObject*, PyObject* arguments) noexcept {
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
        std::vector<std::string_view> texts;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(held.get()); ++i) {
            char* text = nullptr;
            Py_ssize_t size = 0;
            if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(held.get(), i), &text, &size) != 0) {
                return nullptr;
            }
            texts.emplace_back(text, static_cast<std::size_t>(size));
        }
        if (texts.size() != columns.all().size()) {
            PyErr_Format(PyExc_ValueError, "there are %zu columns and %zu labels",
                         columns.all().size(), texts.size());
            return nullptr;
        }
        return lines(columns, Json(std::move(texts)), static_cast<std::size_t>(start),
                     static_cast<std::size_t>(stop));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

} // namespace penstock::python::record
