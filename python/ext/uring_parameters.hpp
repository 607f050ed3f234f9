#pragma once

#include "uring_module.hpp"

#include <array>
#include <cstddef>
#include <initializer_list>

namespace penstock::python {

/// Names and places of parameters, as place_arguments wants them.
struct Places {
    const Name* names;
    PyObject** given; ///< `given[i]` is what the call has for `names[i]`, or null
    std::size_t count;
    std::size_t positional; ///< as many may be given without their name
    std::size_t required;   ///< as many must be given
};

/// Places a call's arguments by position and by name. False with a TypeError set for what does not
/// fit.
bool place_arguments(const ModuleState* state, const char* function, PyObject* const* arguments,
                     Py_ssize_t count, PyObject* keywords, const Places& places) noexcept;

/// The parameters of a METH_FASTCALL | METH_KEYWORDS method: a PyArg_ParseTupleAndKeywords that
/// compares pointers instead of texts.
template <std::size_t Count> class Parameters {
public:
    Parameters(std::initializer_list<Name> names) noexcept {
        std::size_t i = 0;
        for (const Name name : names) {
            names_[i++] = name;
        }
    }

    bool parse(const ModuleState* state, const char* function, PyObject* const* arguments,
               Py_ssize_t count, PyObject* keywords, std::size_t required) noexcept {
        return place_arguments(state, function, arguments, count, keywords,
                               {names_.data(), places_.data(), Count, Count, required});
    }

    /// Null where nothing was given.
    PyObject* operator[](std::size_t index) const noexcept { return places_[index]; }

private:
    std::array<Name, Count> names_{};
    std::array<PyObject*, Count> places_{};
};

} // namespace penstock::python
