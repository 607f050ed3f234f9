// line_counts(): what tells in one pass whether a text has nothing but plain lines.

#include "module.hpp"
#include "shared/buffer_view.hpp"

#include <cstddef>
#include <cstdint>

namespace penstock::python::record {

namespace {

struct Counts {
    std::size_t line_feeds = 0;
    std::size_t quotes = 0;
    std::size_t lone_returns = 0;
};

/// Counts of `size` bytes, of which there is one more. At most 255: then a byte holds each sum,
/// which is what makes the compiler compare many bytes at once.
void count_short(const char* data, std::size_t size, Counts& counts) noexcept {
    std::uint8_t line_feeds = 0;
    std::uint8_t quotes = 0;
    std::uint8_t lone_returns = 0;
    for (std::size_t i = 0; i < size; ++i) {
        line_feeds = static_cast<std::uint8_t>(line_feeds + (data[i] == '\n' ? 1 : 0));
        quotes = static_cast<std::uint8_t>(quotes + (data[i] == '"' ? 1 : 0));
        const bool is_lone = (data[i] == '\r') & (data[i + 1] != '\n');
        lone_returns = static_cast<std::uint8_t>(lone_returns + (is_lone ? 1 : 0));
    }
    counts.line_feeds += line_feeds;
    counts.quotes += quotes;
    counts.lone_returns += lone_returns;
}

Counts counted(const char* data, std::size_t size) noexcept {
    constexpr std::size_t step = 240;
    Counts counts;
    std::size_t place = 0;
    for (; place + step < size; place += step) {
        count_short(data + place, step, counts);
    }
    if (place < size) {
        count_short(data + place, size - 1 - place, counts);
        const char last[] = {data[size - 1], '\0'};
        count_short(last, 1, counts);
    }
    return counts;
}

} // namespace

PyObject* line_counts(PyObject*, PyObject* data) noexcept {
    BufferView view;
    if (!view.acquire(data, PyBUF_SIMPLE)) {
        return nullptr;
    }
    const Counts counts = counted(view.data(), view.bytes().size());
    return Py_BuildValue("nnn", static_cast<Py_ssize_t>(counts.line_feeds),
                         static_cast<Py_ssize_t>(counts.quotes),
                         static_cast<Py_ssize_t>(counts.lone_returns));
}

} // namespace penstock::python::record
