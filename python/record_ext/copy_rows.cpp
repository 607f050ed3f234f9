// copy_rows(): columns as the rows of PostgreSQL's COPY in binary format (its manual, page "COPY",
// section "Binary Format"): for each row the number of fields, for each field its size and bytes,
// most significant byte first. Head and trailer are the caller's.

#include "byte_order.hpp"
#include "encoded_rows.hpp"
#include "module.hpp"

#include <bit>

namespace penstock::python::record {

namespace {

/// Microseconds from 1970 to 2000, where PostgreSQL's count begins (its manual, section 8.5).
constexpr std::int64_t epoch = 946'684'800'000'000;

template <std::unsigned_integral T> char* put_big_endian(char* out, T value) noexcept {
    return put_number<std::endian::big>(out, value);
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
    return rows_of(arguments, [](const Columns& columns, std::size_t start, std::size_t stop) {
        const std::vector<Column>& all = columns.all();
        const std::size_t bound = (stop - start) * (2 + 12 * all.size()) + columns.text_size();
        return encoded_rows(bound, [&](char* out) noexcept {
            for (std::size_t row = start; row < stop; ++row) {
                out = put_big_endian(out, static_cast<std::uint16_t>(all.size()));
                for (const Column& column : all) {
                    out = put_field(out, column, row);
                }
            }
            return out;
        });
    });
}

} // namespace penstock::python::record
