#pragma once

#include <Python.h>

#include <cstddef>
#include <string_view>

namespace penstock::python {

/// The memory of an object that exports a buffer (a Py_buffer), or nothing. Must be destroyed with
/// the GIL held.
///
/// Exporting and releasing run Python code from 3.12 on (`__buffer__`, `__release_buffer__`). The
/// owner of a view reads its own state again afterwards. That code may reach the owner and release
/// the view, so the view is emptied before it is released.
class BufferView {
public:
    BufferView() noexcept { view_.obj = nullptr; }
    BufferView(const BufferView&) = delete;
    BufferView& operator=(const BufferView&) = delete;
    ~BufferView() { release(); }

    /// `flags`: PyBUF_SIMPLE or PyBUF_WRITABLE; with these no pointer of the view points into the
    /// view. The view must be empty. False with an exception set.
    bool acquire(PyObject* exporter, int flags) noexcept {
        Py_buffer view;
        if (PyObject_GetBuffer(exporter, &view, flags) != 0) {
            return false;
        }
        release(); // the exporter's code may have acquired one here
        view_ = view;
        return true;
    }

    void release() noexcept {
        if (view_.obj != nullptr) {
            Py_buffer view = view_;
            view_.obj = nullptr;
            PyBuffer_Release(&view);
        }
    }

    explicit operator bool() const noexcept { return view_.obj != nullptr; }
    [[nodiscard]] char* data() const noexcept { return static_cast<char*>(view_.buf); }
    [[nodiscard]] Py_ssize_t size() const noexcept { return view_.len; }

    [[nodiscard]] std::string_view bytes() const noexcept {
        return {data(), static_cast<std::size_t>(size())};
    }

    /// For tp_traverse.
    [[nodiscard]] PyObject* owner() const noexcept { return view_.obj; }

private:
    Py_buffer view_;
};

} // namespace penstock::python
