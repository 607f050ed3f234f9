#pragma once

#include "shared/py_ref.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::python {

/// What the fields of a response say to the server, beside their text in the head.
struct ResponseFacts {
    std::uint64_t length = 0; ///< if `has_length`
    bool has_length = false;
    bool has_date = false;
    bool has_server = false;
    bool closes = false; ///< `connection: close`
};

/// The fields of earlier responses as they stand in a head. An application whose fields are
/// constants passes the same `bytes` objects each time. Such objects cannot change, so they are not
/// checked and written one by one again.
///
/// Bounded: a few lists of few fields. For an application that makes its fields anew, lists are
/// kept more and more rarely.
class KnownFields {
public:
    struct List {
        std::vector<PyObject*> objects; ///< owned: names and values in turn
        std::string text;
        ResponseFacts facts;
        unsigned misses = 0;   ///< since it was kept
        unsigned patience = 0; ///< the misses after which another list takes its place
    };

    /// The list of the same objects, or null. `pairs` is any object.
    [[nodiscard]] const List* find(PyObject* pairs) noexcept;

    /// Keeps a list that `find` has not found, if it is worth it.
    void keep(PyObject* pairs, std::string_view text, const ResponseFacts& facts) noexcept;

    void clear() noexcept;

private:
    static constexpr std::size_t places = 8;

    std::array<List, places> lists_;
};

} // namespace penstock::python
