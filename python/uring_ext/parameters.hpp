#pragma once

#include "module.hpp"

#include <array>
#include <cstddef>
#include <initializer_list>

namespace penstock::python::uring {

/// Names and argument slots of parameters, for assign_arguments.
struct ArgumentSlots {
    const Name* names;
    PyObject** given; ///< `given[i]` is the call's argument for `names[i]`, or null
    std::size_t count;
    std::size_t positional; ///< number of parameters that may be positional
    std::size_t required;   ///< number of parameters that are required
};

/// Assigns a call's arguments to parameters by position and by name. False with TypeError set for
/// arguments that do not fit.
bool assign_arguments(const ModuleState* state, const char* function, PyObject* const* arguments,
                      Py_ssize_t count, PyObject* keywords, const ArgumentSlots& places) noexcept;

/// The parameters of a METH_FASTCALL | METH_KEYWORDS method. Like PyArg_ParseTupleAndKeywords, but
/// compares pointers and not texts.
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
        return assign_arguments(state, function, arguments, count, keywords,
                                {names_.data(), places_.data(), Count, Count, required});
    }

    /// Null for an argument that was not given.
    PyObject* operator[](std::size_t index) const noexcept { return places_[index]; }

private:
    std::array<Name, Count> names_{};
    std::array<PyObject*, Count> places_{};
};

} // namespace penstock::python::uring
