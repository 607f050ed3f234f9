// frame_values(): the values of the usual data frame of an Alicat instrument, in one pass.
//
// It takes less than the regular expression of penstock.alicat does, and nothing that that refuses:
// columns of numbers, then at most one text that was seen before, and no status codes. For any
// other line it returns None, and the regular expression decides.

#include "module.hpp"
#include "shared/py_ref.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace penstock::python::record {

namespace {

/// A double holds a whole number of so many digits exactly, and divides it by a power of ten with
/// one rounding: the result is that of float().
constexpr std::size_t exact_digits = 15;

constexpr std::array<double, exact_digits + 1> powers_of_ten = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

constexpr bool is_digit(char character) noexcept {
    return character >= '0' && character <= '9';
}

/// A number of digits, with a sign or not, with the given decimals; any number of them if negative.
/// No decimals may have the point or not.
bool read_number(std::string_view token, Py_ssize_t decimals, double& value) noexcept {
    const bool negative = token.starts_with('-');
    if (negative || token.starts_with('+')) {
        token.remove_prefix(1);
    }
    const std::size_t point = std::min(token.find('.'), token.size());
    const std::size_t shown = point < token.size() ? token.size() - point - 1 : 0;
    if (point == 0 || point + shown > exact_digits) {
        return false;
    }
    if (decimals >= 0 && shown != static_cast<std::size_t>(decimals)) {
        return false;
    }
    std::int64_t digits = 0;
    for (std::size_t i = 0; i < token.size(); ++i) {
        if (i == point) {
            continue;
        }
        if (!is_digit(token[i])) {
            return false;
        }
        digits = digits * 10 + (token[i] - '0');
    }
    const double magnitude = static_cast<double>(digits) / powers_of_ten[shown];
    value = negative ? -magnitude : magnitude;
    return true;
}

/// Takes spaces, at least one, and the characters up to the next space. Empty if there are none.
std::string_view take_token(std::string_view& rest) noexcept {
    const std::size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
    if (begin == 0) {
        return {};
    }
    rest.remove_prefix(begin);
    const std::string_view token = rest.substr(0, rest.find(' '));
    rest.remove_prefix(token.size());
    return token;
}

/// The text at the end with its padding: the key of those that were seen. Empty if it is none.
std::string_view take_text(std::string_view rest, Py_ssize_t width) noexcept {
    if (width == 0) {
        const std::string_view token = take_token(rest);
        return rest.empty() ? token : std::string_view();
    }
    if (!rest.starts_with(' ') || rest.size() != static_cast<std::size_t>(width) + 1) {
        return {};
    }
    const std::string_view padded = rest.substr(1);
    const std::size_t begin = padded.find_first_not_of(' ');
    const bool ends =
        begin != std::string_view::npos && padded.find(' ', begin) == std::string_view::npos;
    return ends ? padded : std::string_view();
}

} // namespace

/// frame_values(prefix, names, widths, decimals, text_width, texts, line): a dict, or None. `names`
/// has one name more than `widths` where a text follows the numbers; a width of 0 and negative
/// decimals are not known. `texts` has the texts that were seen, by their padded bytes.
PyObject* frame_values(PyObject* /*module*/, PyObject* const* arguments,
                       Py_ssize_t count) noexcept {
    if (count != 7 || !PyBytes_Check(arguments[0]) || !PyTuple_Check(arguments[1]) ||
        !PyTuple_Check(arguments[2]) || !PyTuple_Check(arguments[3]) ||
        !PyDict_Check(arguments[5]) || !PyBytes_Check(arguments[6])) {
        PyErr_SetString(PyExc_TypeError,
                        "frame_values(prefix, names, widths, decimals, text_width, texts, line)");
        return nullptr;
    }
    const auto view_of = [](PyObject* bytes) {
        return std::string_view(PyBytes_AS_STRING(bytes),
                                static_cast<std::size_t>(PyBytes_GET_SIZE(bytes)));
    };
    PyObject* names = arguments[1];
    const Py_ssize_t numbers = PyTuple_GET_SIZE(arguments[2]);
    const Py_ssize_t columns = PyTuple_GET_SIZE(names);
    if (PyTuple_GET_SIZE(arguments[3]) != numbers || columns < numbers || columns > numbers + 1) {
        PyErr_SetString(PyExc_ValueError, "names, widths and decimals do not belong together");
        return nullptr;
    }
    std::string_view rest = view_of(arguments[6]);
    if (!rest.starts_with(view_of(arguments[0]))) {
        Py_RETURN_NONE;
    }
    rest.remove_prefix(view_of(arguments[0]).size());
    Ref values(PyDict_New());
    if (!values) {
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < numbers; ++i) {
        const Py_ssize_t width = PyLong_AsSsize_t(PyTuple_GET_ITEM(arguments[2], i));
        const Py_ssize_t decimals = PyLong_AsSsize_t(PyTuple_GET_ITEM(arguments[3], i));
        if (PyErr_Occurred() != nullptr) {
            return nullptr;
        }
        const std::string_view token = take_token(rest);
        double value = 0;
        if (token.empty() || static_cast<Py_ssize_t>(token.size()) < width ||
            !read_number(token, decimals, value)) {
            Py_RETURN_NONE;
        }
        const Ref number(PyFloat_FromDouble(value));
        if (!number ||
            PyDict_SetItem(values.get(), PyTuple_GET_ITEM(names, i), number.get()) != 0) {
            return nullptr;
        }
    }
    if (columns == numbers) {
        return rest.empty() ? values.release() : Py_NewRef(Py_None);
    }
    const Py_ssize_t width = PyLong_AsSsize_t(arguments[4]);
    if (width < 0) {
        return PyErr_Occurred() != nullptr ? nullptr : Py_NewRef(Py_None);
    }
    const std::string_view padded = take_text(rest, width);
    if (padded.empty()) {
        Py_RETURN_NONE;
    }
    const Ref key(PyBytes_FromStringAndSize(padded.data(), static_cast<Py_ssize_t>(padded.size())));
    const Ref text = Ref::borrow(key ? PyDict_GetItemWithError(arguments[5], key.get()) : nullptr);
    if (!text) {
        return PyErr_Occurred() != nullptr ? nullptr : Py_NewRef(Py_None);
    }
    if (PyDict_SetItem(values.get(), PyTuple_GET_ITEM(names, numbers), text.get()) != 0) {
        return nullptr;
    }
    return values.release();
}

} // namespace penstock::python::record
