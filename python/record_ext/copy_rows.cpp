// copy_rows(): columns as the rows of PostgreSQL's COPY in binary format (its manual, page "COPY",
// section "Binary Format"): for each row the number of fields, for each field its size and bytes,
// most significant byte first. Head and trailer are the caller's.

#include "encoded_rows.hpp"
#include "module.hpp"

#include <bit>
#include <new>

namespace penstock::python::record {

namespace {

/// Microseconds from 1970 to 2000, where PostgreSQL's count begins (its manual, section 8.5).
constexpr std::int64_t epoch = 946'684'800'000'000;

template <typename Unsigned> char* put_big_endian(char* out, Unsigned value) noexcept {
    if constexpr (std::endian::native == std::endian::little) {
        if constexpr (sizeof value == 8) {
            value = __builtin_bswap64(value);
        } else if constexpr (sizeof value == 4) {
            value = __builtin_bswap32(value);
        } else {
            value = __builtin_bswap16(value);
        }
    }
    std::memcpy(out, &value, sizeof value);
    return out + sizeof value;
}

char* put_64(char* out, std::uint64_t value) noexcept {
    return put_big_endian(put_big_endian(out, std::uint32_t{8}), value);
}

char* put_null(char* out) noexcept {
    return put_big_endian(out, ~std::uint32_t{0});
}

/// Whole microseconds, rounded down.
std::int64_t microseconds(std::int64_t stamp) noexcept {
    return stamp / 1000 - (stamp % 1000 < 0 ? 1 : 0) - epoch;
}

char* put_field(char* out, const Column& column, std::size_t row) noexcept {
    if (column.kind == Kind::text) {
        const std::string_view text = column.text(row);
        if (text.data() == nullptr) {
            return put_null(out);
        }
        out = put_big_endian(out, static_cast<std::uint32_t>(text.size()));
        std::memcpy(out, text.data(), text.size());
        return out + text.size();
    }
    if (!column.has(row)) {
        return put_null(out);
    }
    switch (column.kind) {
    case Kind::number: // its bits
    case Kind::whole:
        return put_64(out, column.at<std::uint64_t>(row));
    case Kind::stamp:
        return put_64(out, static_cast<std::uint64_t>(microseconds(column.at<std::int64_t>(row))));
    case Kind::truth:
        out = put_big_endian(out, std::uint32_t{1});
        *out++ = column.at<std::int8_t>(row) != 0 ? 1 : 0;
        return out;
    case Kind::text:
        break;
    }
    return out;
}

} // namespace

PyObject* copy_rows(PyObject*, PyObject* arguments) noexcept {
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
        const auto rows = static_cast<std::size_t>(stop - start);
        return encoded_rows(
            rows * (2 + 12 * all.size()) + columns.text_size(), [&](char* out) noexcept {
                for (auto row = static_cast<std::size_t>(start);
                     row < static_cast<std::size_t>(stop); ++row) {
                    out = put_big_endian(out, static_cast<std::uint16_t>(all.size()));
                    for (const Column& column : all) {
                        out = put_field(out, column, row);
                    }
                }
                return out;
            });
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

} // namespace penstock::python::record
