#pragma once

#include "shared/py_ref.hpp"

#include <cstddef>
#include <cstring>

namespace penstock::python {

/// A path as system calls take it. The argument must outlive it.
///
/// Text in ASCII is the same in the encoding of every locale, so it is used where it is. Others
/// become a new bytes object.
class SystemPath {
public:
    /// If `given` is not a path: without a text, and with an exception set.
    explicit SystemPath(PyObject* given) noexcept {
        if (PyUnicode_CheckExact(given) && PyUnicode_IS_COMPACT_ASCII(given)) {
            const auto* text = static_cast<const char*>(PyUnicode_DATA(given));
            if (std::strlen(text) == static_cast<std::size_t>(PyUnicode_GET_LENGTH(given))) {
                text_ = text;
                return;
            }
        }
        PyObject* encoded = nullptr;
        if (PyUnicode_FSConverter(given, static_cast<void*>(&encoded)) != 0) {
            encoded_ = Ref(encoded);
            text_ = PyBytes_AS_STRING(encoded);
        }
    }

    [[nodiscard]] const char* text() const noexcept { return text_; }
    [[nodiscard]] explicit operator bool() const noexcept { return text_ != nullptr; }

private:
    Ref encoded_;
    const char* text_ = nullptr;
};

} // namespace penstock::python
