// The entries of a folder with their contents, a batch in one call without the GIL.

#include "core/module.hpp"
#include "shared/cached_opening.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <penstock/owned_descriptor.hpp>

namespace penstock::python {

namespace {

constexpr std::size_t names_at_once = std::size_t{32} << 10;
constexpr std::size_t most_entries = 512;

/// Where the contents of a batch are read to. One file may need more.
constexpr std::size_t memory_of_batch = std::size_t{256} << 10;

/// A file is begun only with room for so many bytes.
constexpr std::size_t least_room = 4097;

/// An entry of getdents64(2).
struct Name {
    std::uint64_t inode;
    std::int64_t next;
    std::uint16_t size;
    std::uint8_t type;
    char first;
};

struct Entry {
    std::string name;
    std::uint8_t type;
    bool has_content = false;
    std::size_t begin = 0; ///< of the content in the batch's memory
    std::size_t size = 0;
};

/// The outcome of reading a file.
enum class Content : unsigned char { read, none, missing, no_room, failed };

/// A walk over one folder, which goes on from batch to batch.
///
/// Owns its buffers, not the folder's descriptor: the caller keeps that open, and closes it after
/// the scan. `entries` and `memory` are those of the last `run`, until the next one.
///
/// Thread safety: one `run` at a time, on any thread and without the GIL. It calls nothing of
/// Python's.
///
/// Cost: a getdents64(2) for about a thousand names, and with contents an open, a read and a close
/// for each file. A batch has at most 512 entries, and their contents 256 KiB, unless one file
/// alone is larger, up to `largest`.
class Scan {
public:
    Scan(int folder, bool contents, std::size_t largest)
        : folder_(folder), contents_(contents), largest_(largest) {}

    /// Reads the next batch. It ends early, before an entry that has failed: the next batch fails.
    void run() {
        entries_.clear();
        used_ = 0;
        error_ = 0;
        if (contents_ && size_ != memory_of_batch) {
            reserve(memory_of_batch);
            struct statx status = {};
            local_ = read_local_status(folder_, status);
        }
        while (entries_.size() < most_entries && (at_ != filled_ || fill()) && take()) {
        }
        if (!entries_.empty()) {
            error_ = 0;
        }
    }

    [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
    [[nodiscard]] const char* memory() const noexcept { return memory_.get(); }
    [[nodiscard]] std::size_t used() const noexcept { return used_; }
    [[nodiscard]] int error() const noexcept { return error_; }
    [[nodiscard]] const std::string& failed_name() const noexcept { return failed_name_; }

private:
    /// Reads the next names. False at the end of the folder, and for an error.
    bool fill() {
        const long size = ::syscall(SYS_getdents64, folder_, names_.data(), names_at_once);
        error_ = size < 0 ? errno : 0;
        at_ = 0;
        filled_ = size > 0 ? static_cast<std::size_t>(size) : 0;
        return filled_ != 0;
    }

    /// Takes the next entry. False if it has no room, or has failed: it remains the next one.
    bool take() {
        const auto* found =
            reinterpret_cast<const Name*>(reinterpret_cast<const char*>(names_.data()) + at_);
        const std::string_view name(&found->first);
        if (name != "." && name != ".." && !add(std::string(name), found->type)) {
            return false;
        }
        at_ += found->size;
        return true;
    }

    /// False if the entry does not fit, or has failed.
    bool add(std::string name, std::uint8_t type) {
        if (type == DT_UNKNOWN) {
            type = look_at(name);
        }
        Entry entry{.name = std::move(name), .type = type};
        if (contents_ && type == DT_REG) {
            switch (read(entry)) {
            case Content::read:
            case Content::none:
                break;
            case Content::missing:
                return true; // removed since
            case Content::no_room:
                return false;
            case Content::failed:
                failed_name_ = entry.name;
                return false;
            }
        }
        entries_.push_back(std::move(entry));
        return true;
    }

    /// The type of an entry that the file system does not tell with its name.
    [[nodiscard]] std::uint8_t look_at(const std::string& name) const noexcept {
        struct stat status = {};
        if (::fstatat(folder_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
            return DT_UNKNOWN;
        }
        return static_cast<std::uint8_t>(IFTODT(status.st_mode));
    }

    /// Opens a file. `whole`: a short read is one up to its end. Not so in file systems such as
    /// /proc, from which a file may also be mounted here.
    [[nodiscard]] int open_file(const std::string& name, bool& whole) const noexcept {
        constexpr int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
        // Nonblocking: a pipe may have taken the name since.
        if (local_) {
            open_how how = {};
            how.flags = static_cast<std::uint64_t>(flags | O_NONBLOCK);
            how.resolve = RESOLVE_NO_XDEV;
            const long file = ::syscall(SYS_openat2, folder_, name.c_str(), &how, sizeof how);
            if (file >= 0) {
                whole = true;
                return static_cast<int>(file);
            }
        }
        const int file = ::openat(folder_, name.c_str(), flags | O_NONBLOCK);
        const bool leased = file < 0 && errno == EWOULDBLOCK && look_at(name) == DT_REG;
        return leased ? ::openat(folder_, name.c_str(), flags) : file;
    }

    Content read(Entry& entry) {
        bool whole = false;
        const OwnedDescriptor file(open_file(entry.name, whole));
        if (file.get() < 0) {
            switch (errno) {
            case ENOENT:
                return Content::missing;
            case ELOOP:
            case ENXIO:
                return Content::none; // something else has taken the name
            default:
                error_ = errno;
                return Content::failed;
            }
        }
        entry.begin = used_;
        for (;;) {
            if (size_ - used_ - entry.size < (entry.size == 0 ? least_room : 1) &&
                !make_room(entry.size)) {
                return used_ == 0 ? Content::none : Content::no_room;
            }
            const std::size_t room = size_ - used_ - entry.size;
            const ssize_t count = ::read(file.get(), memory_.get() + used_ + entry.size, room);
            if (count < 0 && errno == EINTR) {
                continue;
            }
            if (count < 0 && errno == EISDIR) {
                return Content::none;
            }
            if (count < 0) {
                error_ = errno;
                return Content::failed;
            }
            if (count == 0) {
                break;
            }
            entry.size += static_cast<std::size_t>(count);
            if (whole && static_cast<std::size_t>(count) < room) {
                break;
            }
        }
        if (entry.size > largest_) {
            return Content::none;
        }
        used_ += entry.size;
        entry.has_content = true;
        return Content::read;
    }

    /// Room for more of a file, of which `size` bytes are there. False if other files have the
    /// memory, or if the file is too large.
    bool make_room(std::size_t size) {
        if (used_ != 0 || size_ > largest_) {
            return false;
        }
        const std::unique_ptr<char[]> before = std::move(memory_);
        reserve(std::min(2 * size_, largest_ + 1));
        std::memcpy(memory_.get(), before.get(), size);
        return true;
    }

    void reserve(std::size_t size) {
        memory_.reset(new char[size]);
        size_ = size;
    }

    /// What getdents64(2) fills in, aligned as the kernel writes it.
    std::vector<std::uint64_t> names_ = std::vector<std::uint64_t>(names_at_once / 8);
    std::size_t at_ = 0;
    std::size_t filled_ = 0;
    int folder_;
    bool contents_;
    bool local_ = false; ///< the folder, and what is not mounted in it
    std::size_t largest_;
    std::vector<Entry> entries_;
    std::unique_ptr<char[]> memory_; // NOLINT(modernize-avoid-c-arrays): without a fill
    std::size_t size_ = 0;           ///< of the memory
    std::size_t used_ = 0;
    int error_ = 0;
    std::string failed_name_;
};

/// `Scan::run` without the GIL; false without memory.
bool run_detached(Scan& scan) noexcept {
    PyThreadState* thread = PyEval_SaveThread();
    bool done = true;
    try {
        scan.run();
    } catch (const std::bad_alloc&) {
        done = false;
    }
    PyEval_RestoreThread(thread);
    return done;
}

const char* kind_of(std::uint8_t type) noexcept {
    switch (type) {
    case DT_REG:
        return "file";
    case DT_DIR:
        return "folder";
    case DT_LNK:
        return "link";
    default:
        return "other";
    }
}

PyObject* decoded(const std::string& name) noexcept {
    return PyUnicode_DecodeFSDefaultAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}

/// (name, kind, content) as an object of the entries' type; null with an exception set.
PyObject* make_entry(PyTypeObject* type, const Entry& entry, const char* memory) noexcept {
    Ref made(PyStructSequence_New(type));
    PyObject* name = made ? decoded(entry.name) : nullptr;
    PyObject* kind = name != nullptr ? PyUnicode_InternFromString(kind_of(entry.type)) : nullptr;
    if (kind == nullptr) {
        Py_XDECREF(name);
        return nullptr;
    }
    PyObject* content =
        entry.has_content
            ? PyBytes_FromStringAndSize(memory + entry.begin, static_cast<Py_ssize_t>(entry.size))
            : Py_NewRef(Py_None);
    PyStructSequence_SetItem(made.get(), 0, name);
    PyStructSequence_SetItem(made.get(), 1, kind);
    PyStructSequence_SetItem(made.get(), 2, content);
    return content != nullptr ? made.release() : nullptr;
}

PyObject* raise_scan_error(const Scan& scan, PyObject* path) {
    const int error = scan.error();
    Ref name = Ref::borrow(path);
    if (!scan.failed_name().empty()) {
        const Ref last(decoded(scan.failed_name()));
        name = Ref(last ? PyUnicode_FromFormat("%U/%U", path, last.get()) : nullptr);
        if (!name) {
            return nullptr;
        }
    }
    errno = error;
    return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name.get());
}

constexpr const char* capsule_name = "penstock._core.FolderScan";

void delete_scan(PyObject* capsule) {
    delete static_cast<Scan*>(PyCapsule_GetPointer(capsule, capsule_name));
}

PyObject* begin_scan(PyObject* /*module*/, PyObject* arguments) {
    int folder = -1;
    int contents = 0;
    Py_ssize_t largest = 0;
    if (PyArg_ParseTuple(arguments, "ipn:begin_scan", &folder, &contents, &largest) == 0) {
        return nullptr;
    }
    if (largest < 0) {
        return PyErr_Format(PyExc_ValueError, "largest %zd is negative", largest);
    }
    try {
        auto scan =
            std::make_unique<Scan>(folder, contents != 0, static_cast<std::size_t>(largest));
        PyObject* capsule = PyCapsule_New(scan.get(), capsule_name, &delete_scan);
        if (capsule != nullptr) {
            static_cast<void>(scan.release());
        }
        return capsule;
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

PyObject* scan_folder(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 2 || PyUnicode_Check(arguments[1]) == 0) {
        PyErr_SetString(PyExc_TypeError, "scan_folder() takes a scan and a path");
        return nullptr;
    }
    auto* known = static_cast<Scan*>(PyCapsule_GetPointer(arguments[0], capsule_name));
    if (known == nullptr) {
        return nullptr;
    }
    Scan& scan = *known;
    if (!run_detached(scan)) {
        return PyErr_NoMemory();
    }
    if (scan.error() != 0) {
        return raise_scan_error(scan, arguments[1]);
    }
    PyTypeObject* type = state_of_module(module)->folder_entry_type;
    Ref found(PyList_New(static_cast<Py_ssize_t>(scan.entries().size())));
    Py_ssize_t index = 0;
    for (const Entry& entry : scan.entries()) {
        PyObject* made = found ? make_entry(type, entry, scan.memory()) : nullptr;
        if (made == nullptr) {
            return nullptr;
        }
        PyList_SET_ITEM(found.get(), index++, made);
    }
    return found ? Py_BuildValue("nN", static_cast<Py_ssize_t>(scan.used()), found.release())
                 : nullptr;
}

PyStructSequence_Field entry_fields[] = {
    {"name", "its name in the folder"},
    {"kind", "\"file\", \"folder\", \"link\" or \"other\""},
    {"content", "the bytes of a file, or None"},
    {nullptr, nullptr},
};

PyStructSequence_Desc entry_description = {
    "penstock.files.FolderEntry",
    "An entry of a folder: what `files.scan` yields.\n\n"
    "``kind`` is \"file\", \"folder\", \"link\" or \"other\". ``content`` is the bytes of a file, "
    "or\n"
    "None: see `files.scan`.",
    &entry_fields[0],
    3,
};

PyMethodDef functions[] = {
    {"begin_scan", &begin_scan, METH_VARARGS,
     "begin_scan(fd, contents, largest) -> a scan of an open folder, for one thread at a time."},
    {"scan_folder", as_function(&scan_folder), METH_FASTCALL,
     "scan_folder(scan, path) -> (bytes of content, the next FolderEntry objects, none at the "
     "end); "
     "blocks."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

bool add_folder_scan(PyObject* module, ModuleState* state) {
    state->folder_entry_type = PyStructSequence_NewType(&entry_description);
    return state->folder_entry_type != nullptr &&
           PyModule_AddObjectRef(module, "FolderEntry", as_object(state->folder_entry_type)) == 0 &&
           PyModule_AddFunctions(module, functions) == 0;
}

} // namespace penstock::python
