// Finds the header of a record in a damaged append log. The layouts are those of
// penstock.files._log.log_format.

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/module.hpp"
#include "shared/buffer_view.hpp"

namespace penstock::python {

namespace {

/// CRC-32 as zlib computes it. zlib itself is an optional component of the build.
constexpr std::array<std::uint32_t, 256> crc_table = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
        std::uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit) {
            value = (value & 1U) != 0 ? (value >> 1U) ^ 0xEDB88320U : value >> 1U;
        }
        table[byte] = value;
    }
    return table;
}();

std::uint32_t crc32(std::string_view data) noexcept {
    std::uint32_t value = 0xFFFFFFFFU;
    for (const char each : data) {
        value = crc_table[(value ^ static_cast<unsigned char>(each)) & 0xFFU] ^ (value >> 8U);
    }
    return ~value;
}

/// A little-endian number; the machines that Penstock runs on store numbers so.
template <typename Number> Number number_at(const char* where) noexcept {
    Number number;
    std::memcpy(&number, where, sizeof number);
    return number;
}

/// Where a header of one of the two formats keeps what the search looks at.
struct Layout {
    std::size_t checked; ///< bytes before the header's checksum
    bool has_own_place;  ///< the 8 bytes at 8 are the record's own offset, not its commit's
};

constexpr Layout layouts[] = {{20, false}, {24, true}};
constexpr std::size_t checksum_size = 4;
constexpr std::size_t marker_size = 4;

/// Whether `header` begins a record, at `place` in the file, of a commit that began after `after`.
bool is_later_header(const char* header, const Layout& layout, std::int64_t place,
                     std::int64_t after) noexcept {
    const auto offset = number_at<std::int64_t>(header + 8);
    std::int64_t commit = offset;
    if (layout.has_own_place) {
        // Compared first: a payload that repeats the marker then costs no checksum for each copy.
        if (offset != place) {
            return false;
        }
        commit = offset - number_at<std::uint32_t>(header + 16);
    }
    return commit > after && commit <= place &&
           number_at<std::uint32_t>(header + layout.checked) == crc32({header, layout.checked});
}

std::int64_t search(std::string_view data, std::string_view marker, const Layout& layout,
                    std::int64_t base, std::int64_t after) noexcept {
    const std::size_t header_size = layout.checked + checksum_size;
    for (std::size_t at = 0; data.size() - at >= header_size; ++at) {
        if (!marker.empty()) {
            at = data.find(marker, at);
            if (at == std::string_view::npos || data.size() - at < header_size) {
                break;
            }
        }
        const auto place = base + static_cast<std::int64_t>(at);
        if (is_later_header(data.data() + at, layout, place, after)) {
            return static_cast<std::int64_t>(at);
        }
    }
    return -1;
}

PyObject* find_log_header(PyObject* /*module*/, PyObject* arguments) {
    PyObject* exporter = nullptr;
    PyObject* marker = nullptr;
    long long base = 0;
    long long after = 0;
    int version = 0;
    if (PyArg_ParseTuple(arguments, "OSLLi:find_log_header", &exporter, &marker, &base, &after,
                         &version) == 0) {
        return nullptr;
    }
    const Py_ssize_t marker_length = PyBytes_GET_SIZE(marker);
    if ((version != 1 && version != 2) ||
        (marker_length != 0 && marker_length != static_cast<Py_ssize_t>(marker_size))) {
        PyErr_Format(
            PyExc_ValueError,
            "format %d, marker of %zd bytes: the formats are 1 and 2, a marker has 4 bytes "
            "or, if it is unknown, none",
            version, marker_length);
        return nullptr;
    }
    BufferView view;
    if (!view.acquire(exporter, PyBUF_SIMPLE)) {
        return nullptr;
    }
    std::int64_t found = 0;
    Py_BEGIN_ALLOW_THREADS;
    found =
        search(view.bytes(), {PyBytes_AS_STRING(marker), static_cast<std::size_t>(marker_length)},
               layouts[version - 1], base, after);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLongLong(found);
}

PyMethodDef functions[] = {
    {"find_log_header", &find_log_header, METH_VARARGS,
     "find_log_header($module, data, marker, base, after, version, /)\n--\n\n"
     "Return where in data, which is at offset base of a log, the first record's header is whose\n"
     "commit began after offset after; -1 if there is none. An empty marker stands for any.\n\n"
     "The GIL is released meanwhile: data must not be resized."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

bool add_log_search(PyObject* module) {
    return PyModule_AddFunctions(module, functions) == 0;
}

} // namespace penstock::python
