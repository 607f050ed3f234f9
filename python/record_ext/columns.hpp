#pragma once

#include "shared/buffer_view.hpp"
#include "shared/py_ref.hpp"

#include <cstdint>
#include <cstring>
#include <deque>
#include <string_view>
#include <vector>

namespace penstock::python::record {

/// What a column holds, and how its values lie in memory. The letters are those of Python.
enum class Kind : char {
    number = 'f', ///< float64
    whole = 'i',  ///< int64
    truth = 'b',  ///< int8, 0 or 1
    stamp = 't',  ///< int64, nanoseconds since 1970 UTC
    text = 's',   ///< int32, places in `texts`; -1 is null
};

/// The values of one column. Refers to memory that `Columns` owns.
struct Column {
    Kind kind;
    const char* data;
    const char* valid; ///< a byte for each value, 0 where it is null; null where all are there
    std::vector<std::string_view> texts;

    [[nodiscard]] bool has(std::size_t row) const noexcept {
        return valid == nullptr || valid[row] != 0;
    }

    /// Value `row`. The memory of other programs' columns need not be aligned.
    template <typename T> [[nodiscard]] T at(std::size_t row) const noexcept {
        T value;
        std::memcpy(&value, data + row * sizeof(T), sizeof(T));
        return value;
    }

    /// The text of `row`, or null where `data()` is null.
    [[nodiscard]] std::string_view text(std::size_t row) const noexcept {
        const auto code = at<std::int32_t>(row);
        return code < 0 ? std::string_view() : texts[static_cast<std::size_t>(code)];
    }
};

/// The columns that Python code gave, held until they are written. Must be destroyed with the GIL
/// held. Between reading and destruction the values may be used without the GIL.
class Columns {
public:
    /// Reads a sequence of tuples (kind, data, valid or None, texts or None) for rows up to `stop`,
    /// and checks the codes of texts from `start` on. Texts are bytes as the format has them. False
    /// with an exception set.
    bool read(PyObject* sequence, Py_ssize_t start, Py_ssize_t stop);

    [[nodiscard]] const std::vector<Column>& all() const noexcept { return columns_; }

    /// The bytes of all texts in the rows that were read.
    [[nodiscard]] std::size_t text_size() const noexcept { return text_size_; }

private:
    bool read_one(PyObject* tuple, std::size_t start, std::size_t stop);
    bool read_texts(PyObject* texts, Column& column, std::size_t start, std::size_t stop);

    std::vector<Column> columns_;
    std::deque<BufferView> buffers_;
    std::vector<Ref> held_;
    std::size_t text_size_ = 0;
};

} // namespace penstock::python::record
