// The entries of a folder, for walks: names only, folders apart.

#include "core/module.hpp"

#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace penstock::python {

namespace {

struct Entry {
    std::string name;
    bool folder;
};

struct CloseFolder {
    void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

/// Whether an entry is a folder. The kernel mostly tells with the name.
bool is_folder(DIR* folder, const dirent& entry, bool follow) noexcept {
    const bool link = entry.d_type == DT_LNK && follow;
    if (entry.d_type != DT_UNKNOWN && !link) {
        return entry.d_type == DT_DIR;
    }
    const int descriptor = ::dirfd(folder);
    struct stat status = {};
    return descriptor >= 0 &&
           ::fstatat(descriptor, &entry.d_name[0], &status, follow ? 0 : AT_SYMLINK_NOFOLLOW) ==
               0 &&
           S_ISDIR(status.st_mode);
}

/// 0 or an errno.
int read_entries(const char* path, bool follow, std::vector<Entry>& entries) {
    const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path));
    if (!folder) {
        return errno;
    }
    for (;;) {
        errno = 0;
        const dirent* entry = ::readdir(folder.get()); // this thread's own stream
        if (entry == nullptr) {
            return errno;
        }
        std::string name(&entry->d_name[0]);
        if (name != "." && name != "..") {
            const bool folds = is_folder(folder.get(), *entry, follow);
            entries.push_back({.name = std::move(name), .folder = folds});
        }
    }
}

/// `read_entries` without the GIL.
int read_detached(const char* path, bool follow, std::vector<Entry>& entries) noexcept {
    PyThreadState* thread = PyEval_SaveThread();
    int error = 0;
    try {
        error = read_entries(path, follow, entries);
    } catch (const std::bad_alloc&) {
        error = ENOMEM;
    }
    PyEval_RestoreThread(thread);
    return error;
}

PyObject* list_folder(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "list_folder() takes 2 arguments, not %zd", count);
    }
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(arguments[0], static_cast<void*>(&encoded)) == 0) {
        return nullptr;
    }
    const Ref path(encoded);
    if (PySys_Audit("os.scandir", "O", arguments[0]) != 0) {
        return nullptr;
    }
    std::vector<Entry> entries;
    const bool follow = arguments[1] == Py_True;
    if (const int error = read_detached(PyBytes_AS_STRING(path.get()), follow, entries)) {
        errno = error;
        return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, arguments[0]);
    }
    const Ref folders(PyList_New(0));
    const Ref others(PyList_New(0));
    if (!folders || !others) {
        return nullptr;
    }
    for (const Entry& entry : entries) {
        const Ref name(PyUnicode_DecodeFSDefaultAndSize(
            entry.name.data(), static_cast<Py_ssize_t>(entry.name.size())));
        if (!name || PyList_Append(entry.folder ? folders.get() : others.get(), name.get()) != 0) {
            return nullptr;
        }
    }
    return PyTuple_Pack(2, folders.get(), others.get());
}

PyMethodDef functions[] = {
    {"list_folder", as_function(&list_folder), METH_FASTCALL,
     "list_folder(path, follow_symlinks) -> (names of folders, names of all else); blocks."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

bool add_folder_listing(PyObject* module) {
    return PyModule_AddFunctions(module, functions) == 0;
}

} // namespace penstock::python
