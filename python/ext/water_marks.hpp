#pragma once

#include <Python.h>

#include <cstddef>

namespace penstock::python {

/// The two sizes of flow control: a buffer that reaches `high` pauses its writer, one that is down to
/// `low` resumes it. In bytes.
struct WaterMarks {
    std::size_t high;
    std::size_t low;

    /// As asyncio computes them from one of the two: the low mark is a quarter of the high one.
    static constexpr WaterMarks below(std::size_t high) noexcept { return {high, high / 4}; }

    /// From the arguments `(high=None, low=None)` of `method`; `default_high` stands for both None.
    /// False with an exception set.
    static bool parse(WaterMarks& marks, PyObject* arguments, PyObject* keywords,
                      const char* method, std::size_t default_high) noexcept;

    /// The tuple (low, high), as `get_write_buffer_limits` gives it; null with an exception set.
    [[nodiscard]] PyObject* as_tuple() const noexcept;
};

} // namespace penstock::python
