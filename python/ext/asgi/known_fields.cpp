#include "asgi/known_fields.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace penstock::python {

namespace {

constexpr Py_ssize_t most_fields = 32;
constexpr std::size_t longest_text = 4096;
constexpr unsigned longest_patience = 1023;

/// Whether the fields are in a list or a tuple: to look at them runs no code of the program.
bool is_plain(PyObject* pairs) noexcept {
    return (PyList_CheckExact(pairs) || PyTuple_CheckExact(pairs)) &&
           PySequence_Fast_GET_SIZE(pairs) > 0;
}

struct Pair {
    PyObject* name = nullptr; ///< null if the pair is neither a tuple nor a list of two
    PyObject* value = nullptr;
};

Pair pair_at(PyObject* pairs, Py_ssize_t place) noexcept {
    PyObject* pair = PySequence_Fast_GET_ITEM(pairs, place);
    if ((!PyTuple_CheckExact(pair) && !PyList_CheckExact(pair)) ||
        PySequence_Fast_GET_SIZE(pair) != 2) {
        return {};
    }
    return {.name = PySequence_Fast_GET_ITEM(pair, 0), .value = PySequence_Fast_GET_ITEM(pair, 1)};
}

/// Where a list stands among `places`: responses with the same fields and another value of the
/// first one stand apart.
std::size_t place_of(PyObject* pairs, std::size_t places) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(pair_at(pairs, 0).value);
    return (address / 16 + static_cast<std::size_t>(PySequence_Fast_GET_SIZE(pairs))) % places;
}

void forget(KnownFields::List& list) noexcept {
    for (PyObject* object : std::exchange(list.objects, {})) {
        Py_DECREF(object);
    }
}

} // namespace

const KnownFields::List* KnownFields::find(PyObject* pairs) noexcept {
    if (!is_plain(pairs)) {
        return nullptr;
    }
    List& list = lists_[place_of(pairs, places)];
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(pairs);
    if (list.objects.size() != 2 * static_cast<std::size_t>(size)) {
        return nullptr;
    }
    PyObject* const* known = list.objects.data();
    for (Py_ssize_t i = 0; i < size; ++i, known += 2) {
        const Pair pair = pair_at(pairs, i);
        if (pair.name != known[0] || pair.value != known[1]) {
            return nullptr;
        }
    }
    list.misses = list.patience = 0;
    return &list;
}

void KnownFields::keep(PyObject* pairs, std::string_view text,
                       const ResponseFacts& facts) noexcept {
    if (!is_plain(pairs) || PySequence_Fast_GET_SIZE(pairs) > most_fields ||
        text.size() > longest_text) {
        return;
    }
    List& list = lists_[place_of(pairs, places)];
    if (list.misses < list.patience) {
        ++list.misses;
        return;
    }
    list.misses = 0;
    list.patience = std::min(2 * list.patience + 1, longest_patience);
    forget(list);
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(pairs);
    try {
        list.text = text;
        list.facts = facts;
        list.objects.reserve(2 * static_cast<std::size_t>(size));
    } catch (const std::bad_alloc&) {
        return; // it is written anew each time
    }
    for (Py_ssize_t i = 0; i < size; ++i) {
        const Pair pair = pair_at(pairs, i);
        // An object of a derived class may refer to others.
        if (pair.name == nullptr || !PyBytes_CheckExact(pair.name) ||
            !PyBytes_CheckExact(pair.value)) {
            forget(list);
            return;
        }
        list.objects.push_back(Py_NewRef(pair.name));
        list.objects.push_back(Py_NewRef(pair.value));
    }
}

void KnownFields::clear() noexcept {
    for (List& list : lists_) {
        forget(list);
    }
}

} // namespace penstock::python
