#pragma once

#include <Python.h>

#include <cstddef>

namespace penstock::python {

/// The two limits of flow control, in bytes. A buffer larger than `high` pauses its writer; one
/// that has shrunk to `low` resumes it.
struct WaterMarks {
    std::size_t high;
    std::size_t low;

    /// The marks that asyncio derives from the high one: the low mark is a quarter of it.
    static constexpr WaterMarks below(std::size_t high) noexcept { return {high, high / 4}; }

    /// Reads the arguments `(high=None, low=None)` of `method`. `default_high` applies when both
    /// are None. False with an exception set.
    static bool parse(WaterMarks& marks, PyObject* arguments, PyObject* keywords,
                      const char* method, std::size_t default_high) noexcept;

    /// The tuple (low, high) that `get_write_buffer_limits` returns. Null with an exception set.
    [[nodiscard]] PyObject* as_tuple() const noexcept;
};

} // namespace penstock::python
