#include "files/file_memory.hpp"

#include <cstdlib>

namespace penstock::python {

namespace {

/// For direct reads of bytes: the memory of a bytes object is not aligned.
struct AlignedMemory : FileExtra {
    AlignedMemory(std::size_t alignment, std::size_t size) noexcept
        : begin(static_cast<char*>(std::aligned_alloc(alignment, size))) {}
    ~AlignedMemory() override { std::free(begin); }

    char* begin;
};

/// A multiple of every alignment that a device may require.
constexpr std::int64_t page = 4096;

} // namespace

bool check_alignment(const FileOperationObject* operation) noexcept {
    if (!needs_alignment(operation)) {
        return true;
    }
    const char* what = nullptr;
    std::int64_t value = 0;
    if (operation->offset > 0 && !is_aligned(operation, operation->offset)) {
        what = "offset";
        value = operation->offset;
    } else if (!is_aligned(operation, operation->size)) {
        what = "size";
        value = operation->size;
    }
    if (what != nullptr) {
        PyErr_Format(PyExc_ValueError,
                     "%s %lld is not a multiple of %lld, which this file requires: it is open with "
                     "O_DIRECT",
                     what, static_cast<long long>(value),
                     static_cast<long long>(operation->alignment));
    }
    return what == nullptr;
}

bool allocate_bytes(FileOperationObject* operation) noexcept {
    if (!check_alignment(operation)) {
        return false;
    }
    if (needs_alignment(operation)) {
        const std::int64_t alignment = std::max(operation->alignment, page);
        const std::int64_t size = (operation->size + alignment - 1) / alignment * alignment;
        auto* memory = new (std::nothrow)
            AlignedMemory(static_cast<std::size_t>(alignment), static_cast<std::size_t>(size));
        operation->extra = memory;
        if (memory == nullptr || memory->begin == nullptr) {
            PyErr_NoMemory();
            return false;
        }
        operation->memory = memory->begin;
        return true;
    }
    operation->target =
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(operation->size));
    if (operation->target == nullptr) {
        return false;
    }
    operation->memory = PyBytes_AS_STRING(operation->target);
    return true;
}

bool export_buffer(FileOperationObject* operation, PyObject* buffer, bool writable) noexcept {
    if (!writable && PyBytes_CheckExact(buffer)) {
        operation->target = Py_NewRef(buffer);
        operation->memory = PyBytes_AS_STRING(buffer);
        operation->size = PyBytes_GET_SIZE(buffer);
    } else {
        if (!operation->view.acquire(buffer, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE)) {
            return false;
        }
        operation->memory = operation->view.data();
        operation->size = operation->view.size();
    }
    if (needs_alignment(operation) && operation->size > 0 &&
        reinterpret_cast<std::uintptr_t>(operation->memory) %
                static_cast<std::uintptr_t>(operation->alignment) !=
            0) {
        PyErr_Format(
            PyExc_ValueError,
            "the buffer does not begin at a multiple of %lld bytes, which this file requires: "
            "it is open with O_DIRECT; use penstock.files.aligned_buffer()",
            static_cast<long long>(operation->alignment));
        return false;
    }
    return check_alignment(operation);
}

} // namespace penstock::python
