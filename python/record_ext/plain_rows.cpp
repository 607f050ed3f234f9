// plain_rows(): columns as the bytes that a digest is of. Each value is a byte that is 0 for null
// and 1 otherwise, and then: a float64 or int64 with the least significant byte first, a byte that
// is 0 or 1, or the size of a text as a uint32 and its bytes. As SQLite stores numbers, NaN is null
// and minus zero is zero.

#include "byte_order.hpp"
#include "encoded_rows.hpp"
#include "module.hpp"

#include <bit>
#include <cmath>

namespace penstock::python::record {

namespace {

template <std::unsigned_integral T> char* put_little_endian(char* out, T value) noexcept {
    return put_number<std::endian::little>(out, value);
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
    return rows_of(arguments, [](const Columns& columns, std::size_t start, std::size_t stop) {
        const std::vector<Column>& all = columns.all();
        const std::size_t bound = (stop - start) * 9 * all.size() + columns.text_size();
        return encoded_rows(bound, [&](char* out) noexcept {
            for (std::size_t row = start; row < stop; ++row) {
                for (const Column& column : all) {
                    out = put_value(out, column, row);
                }
            }
            return out;
        });
    });
}

} // namespace penstock::python::record
