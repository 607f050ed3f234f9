// plain_rows(): columns as the bytes that a digest is of. Each value is a byte that is 0 for null
// and 1 otherwise, and then: a float64 or int64 with the least significant byte first, a byte that
// is 0 or 1, or the size of a text as a uint32 and its bytes. As SQLite stores numbers, NaN is null
// and minus zero is zero.

#include "encoded_rows.hpp"
#include "module.hpp"

#include <bit>
#include <cmath>
#include <new>

namespace penstock::python::record {

namespace {

template <typename Unsigned> char* put_little_endian(char* out, Unsigned value) noexcept {
    if constexpr (std::endian::native == std::endian::big) {
        value = sizeof value == 8 ? __builtin_bswap64(value)
                                  : static_cast<Unsigned>(__builtin_bswap32(value));
    }
    std::memcpy(out, &value, sizeof value);
    return out + sizeof value;
}

char* put_value(char* out, const Column& column, std::size_t row) noexcept {
    if (column.kind == Kind::text) {
        const std::string_view text = column.text(row);
        *out++ = text.data() == nullptr ? 0 : 1;
        if (text.data() == nullptr) {
            return out;
        }
        out = put_little_endian(out, static_cast<std::uint32_t>(text.size()));
        std::memcpy(out, text.data(), text.size());
        return out + text.size();
    }
    if (!column.has(row)) {
        *out++ = 0;
        return out;
    }
    if (column.kind == Kind::number) {
        const auto value = column.at<double>(row);
        *out++ = std::isnan(value) ? 0 : 1;
        return std::isnan(value)
                   ? out
                   : put_little_endian(out, std::bit_cast<std::uint64_t>(value + 0.0));
    }
    *out++ = 1;
    if (column.kind == Kind::truth) {
        *out++ = column.at<std::int8_t>(row) != 0 ? 1 : 0;
        return out;
    }
    return put_little_endian(out, column.at<std::uint64_t>(row));
}

} // namespace

PyObject* plain_rows(PyObject*, PyObject* arguments) noexcept {
    PyObject* given = nullptr;
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    if (PyArg_ParseTuple(arguments, "Onn", &given, &start, &stop) == 0) {
        return nullptr;
    }
    try {
        Columns columns;
        if (!columns.read(given, start, stop)) {
            return nullptr;
        }
        const std::vector<Column>& all = columns.all();
        const auto first = static_cast<std::size_t>(start);
        const auto last = static_cast<std::size_t>(stop);
        const std::size_t bound = (last - first) * 9 * all.size() + columns.text_size();
        return encoded_rows(bound, [&](char* out) noexcept {
            for (std::size_t row = first; row < last; ++row) {
                for (const Column& column : all) {
                    out = put_value(out, column, row);
                }
            }
            return out;
        });
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

} // namespace penstock::python::record
